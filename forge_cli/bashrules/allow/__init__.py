"""The strict reader of a command line: a line that it cannot read exactly asks."""
