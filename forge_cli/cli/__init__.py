"""The command line: one small module for each command, imported when the command runs."""
