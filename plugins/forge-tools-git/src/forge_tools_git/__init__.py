"""The toolset ``git`` for forge, and the looks of its results."""

__version__ = "0.2.0"
