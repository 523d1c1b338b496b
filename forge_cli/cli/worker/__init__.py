"""``forge worker``: worker files, looked at without a model."""
