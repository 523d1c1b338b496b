"""What a tool may touch."""
