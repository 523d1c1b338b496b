"""Drafts: sessions that work on copy-on-write views of their zones, until somebody has reviewed them."""
