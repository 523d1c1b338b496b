"""The confinement of child processes, by what this machine has for it."""
