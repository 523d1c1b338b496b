"""A conversation told from the lines of its log: on a terminal, as Markdown, as a page for a browser."""
