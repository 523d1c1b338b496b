"""The record of sessions: the lines of a log, how they are written, and how they are read back."""
