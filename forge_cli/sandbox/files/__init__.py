"""Files inside zones: resolving a path, judging the access, and making it."""
