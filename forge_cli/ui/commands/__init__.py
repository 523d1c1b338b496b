"""The slash commands of a conversation, one table of them."""
