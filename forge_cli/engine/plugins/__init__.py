"""Installed plugins, and the toolsets, models, renderers and commands in them."""
