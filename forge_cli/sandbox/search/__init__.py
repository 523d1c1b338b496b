"""Looking for files and for text in them."""
