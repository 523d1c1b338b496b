"""Plugins: what is installed, and the toolsets, models and renderers that it brings."""
