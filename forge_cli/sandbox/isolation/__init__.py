"""Confinement of child processes, with the mechanisms that the machine offers."""
