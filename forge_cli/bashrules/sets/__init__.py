"""Rule sets that forge keeps: what only reads, runs tests, or looks for mistakes."""
