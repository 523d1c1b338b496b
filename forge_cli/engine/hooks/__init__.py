"""Hooks for people: commands and observers that are told of calls and sessions, and may make a verdict stricter."""
