"""Read a line of bash, and judge it by rules before anything runs it."""
