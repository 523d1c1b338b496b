"""Zones: the folders that a worker may use, as declared and as resolved on disk."""
