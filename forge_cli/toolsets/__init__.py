"""Toolsets that are included with forge; each is an ordinary plugin."""
