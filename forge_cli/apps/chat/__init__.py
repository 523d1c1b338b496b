"""A conversation on the terminal: what people type, and what they see while a worker works."""
