"""forge's gate for the calls of other coding tools: one policy, and a record of every decision."""

__version__ = "0.3.0.dev0"
