"""The slash commands of a conversation, in one table."""
