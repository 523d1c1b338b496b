"""``forge plugins``: packages that extend forge."""
