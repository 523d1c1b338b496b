"""The toolset ``git`` for forge, and the renderers of its results."""

__version__ = "0.3.0.dev0"
