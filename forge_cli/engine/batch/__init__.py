"""Batches: one worker on many inputs, each item a session of its own."""
