"""``forge tools``: what there is to call, and calling it by hand."""
