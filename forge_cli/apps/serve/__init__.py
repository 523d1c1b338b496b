"""``forge serve``: a worker for other programs."""
