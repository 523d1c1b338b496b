"""Batches: one worker on many inputs, with a session for each item."""
