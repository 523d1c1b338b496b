"""``forge web``: sessions in a browser."""
