"""The things that a tool may touch."""
