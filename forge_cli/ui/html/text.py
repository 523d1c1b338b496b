"""Text of others inside HTML: every character that means something there is escaped, and so is what cannot be seen."""

from __future__ import annotations

from html import escape

from forge_cli.core.text import readable, visible


def one_line(text: str) -> str:
    """One line of text, whatever is in it."""
    return escape(visible(text))


def many_lines(text: str, *, exact: bool = False) -> str:
    """Text of several lines; ``exact`` is for what somebody decides upon."""
    return escape(visible(text, keep="\n\t") if exact else readable(text))


def element(tag: str, inside: str, *classes: str) -> str:
    """An element around HTML that is drawn already."""
    named = " ".join(filter(None, classes))
    return f'<{tag} class="{named}">{inside}</{tag}>' if named else f"<{tag}>{inside}</{tag}>"
