"""The command line: one module a command, thin; a module loads when its command does."""
