"""Sessions in the background: starting them, their work, and starting them again."""
