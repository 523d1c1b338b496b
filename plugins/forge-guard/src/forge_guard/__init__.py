"""The gate of forge before the calls of other coding tools: one policy, their hooks, a record of every decision."""

__version__ = "0.1.0"
