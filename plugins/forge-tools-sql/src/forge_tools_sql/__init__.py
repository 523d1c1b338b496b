"""A toolset for databases: queries only read, and a write shows the rows that it would change."""

__version__ = "0.3.0.dev0"
