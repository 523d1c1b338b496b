"""``forge chat``: a conversation on the terminal."""
