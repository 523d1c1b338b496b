"""The generous scan of a command line for anything that a rule blocks."""
