"""Inspection of workers and plugins, which runs third-party code in a confined child only."""
