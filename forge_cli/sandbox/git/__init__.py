"""Rules and index of a git repository, read without git."""
