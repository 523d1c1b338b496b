"""The strict reader of a command line: whatever it cannot read exactly asks."""
