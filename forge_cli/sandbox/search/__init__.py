"""Search for files, and for text in files."""
