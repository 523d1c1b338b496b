"""The toolset ``web`` for forge: pages as Markdown, and search."""

__version__ = "0.2.0"
