"""The files people write, read safely and with marks."""
