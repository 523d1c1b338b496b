"""``forge sessions``: what was done, read from the logs."""
