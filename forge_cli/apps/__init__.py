"""What is built on everything else, each found by its command alone: chat, web, batch, serve."""
