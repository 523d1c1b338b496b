"""``forge batch``: items, results, progress, and the process of remote items."""
