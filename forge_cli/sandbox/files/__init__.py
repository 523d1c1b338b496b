"""Files inside zones: walking to one, judging the access, and making it."""
