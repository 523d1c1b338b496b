"""Products on top of everything else, each found by its command alone: chat, web, batch, serve."""
