"""Rule sets of forge: for commands that only read, run tests, build, or check code."""
