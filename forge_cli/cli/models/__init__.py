"""``forge models``: where answers come from."""
