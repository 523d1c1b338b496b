"""Child processes: starting one, reading its output within bounds, and ending its whole tree."""
