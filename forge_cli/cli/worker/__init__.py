"""``forge worker``: worker files, created and inspected without a model."""
