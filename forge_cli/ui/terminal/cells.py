"""How wide text is on a terminal, in cells; without any import that costs time."""

from __future__ import annotations

import re
import unicodedata

RESET = "\x1b[0m"
_SGR = re.compile(r"\x1b\[[\d;]*m")


def cell_width(text: str) -> int:
    """The cells of a line; SGR sequences take none."""
    text = _SGR.sub("", text)
    return len(text) if text.isascii() else sum(map(_width, text))


def fit(text: str, width: int) -> str:
    """A line that has room in so many cells, its end replaced by an ellipsis where it is too long."""
    if cell_width(text) <= width:
        return text
    kept, room, place, styled = "", max(0, width - 1), 0, False
    while place < len(text):
        if found := _SGR.match(text, place):
            kept, place, styled = kept + found[0], found.end(), True
            continue
        room -= _width(text[place])
        if room < 0:
            break
        kept, place = kept + text[place], place + 1
    return kept + "…" + (RESET if styled else "")


def _width(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
