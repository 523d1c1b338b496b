"""The toolset ``web`` for forge: pages as Markdown, and search."""

__version__ = "0.3.0.dev0"
