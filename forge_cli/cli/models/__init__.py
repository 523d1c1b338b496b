"""``forge models``: the models that workers can use."""
