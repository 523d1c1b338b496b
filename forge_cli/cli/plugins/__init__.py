"""``forge plugins``: packages with toolsets, models, renderers and executors; made, listed, checked and installed."""
