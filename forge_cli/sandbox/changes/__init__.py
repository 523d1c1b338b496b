"""Changes of a command to zones: read from an overlay, applied completely or not at all."""
