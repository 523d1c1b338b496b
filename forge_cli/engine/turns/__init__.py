"""The turns of a model: the loop, its history and window, its limits and prices."""
