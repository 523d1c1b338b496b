"""The commands: thin, one file a group."""
