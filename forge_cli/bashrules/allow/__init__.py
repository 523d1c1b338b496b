"""The strict reader of a command line: what it cannot read exactly asks."""
