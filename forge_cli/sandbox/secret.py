"""The beginning of the names of files that may hold secrets."""

DOT_ENV = ".env"
