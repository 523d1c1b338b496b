"""Tools and settings as people write them, checked with JSON Schema."""
