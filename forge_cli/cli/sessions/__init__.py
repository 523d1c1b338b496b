"""``forge sessions``: past sessions, read from their logs."""
