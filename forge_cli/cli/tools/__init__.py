"""``forge tools``: the tools of workers, and your own."""
