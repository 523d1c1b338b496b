"""Settings, and where they come from."""
