"""Changes of a command to zones: read from an overlay, applied all or none."""
