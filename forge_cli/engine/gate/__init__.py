"""The gate that every call passes: judging it, getting consent for it, executing it."""
