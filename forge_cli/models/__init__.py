"""Models that come in the box; each is a plugin like any other."""
