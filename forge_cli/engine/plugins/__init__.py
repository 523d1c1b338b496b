"""Plugins: what is installed, and the toolsets, models, renderers and commands that it brings."""
