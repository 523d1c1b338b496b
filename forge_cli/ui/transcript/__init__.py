"""Transcripts of a session log: on a terminal, as Markdown and as an HTML page."""
