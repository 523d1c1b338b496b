"""Drafts: sessions on copy-on-write views of their zones, applied only after a review."""
