"""Where the words of a call come from, and whether an effect that cannot be undone has to ask."""
