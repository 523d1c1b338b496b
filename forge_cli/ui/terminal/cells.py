"""How wide lines with colours are on a terminal, in cells; without any import that costs time."""

from __future__ import annotations

import re

from forge_cli.ui.wrap import cell_len

RESET = "\x1b[0m"
_SGR = re.compile(r"\x1b\[[\d;]*m")


def cell_width(text: str) -> int:
    """The cells of a line; SGR sequences take none."""
    return cell_len(_SGR.sub("", text))


def fit(text: str, width: int) -> str:
    """A line that has room in so many cells, its end replaced by an ellipsis where it is too long."""
    if cell_width(text) <= width:
        return text
    kept, room, place, styled = "", max(0, width - 1), 0, False
    while place < len(text):
        if found := _SGR.match(text, place):
            kept, place, styled = kept + found[0], found.end(), True
            continue
        room -= cell_len(text[place])
        if room < 0:
            break
        kept, place = kept + text[place], place + 1
    return kept + "…" + (RESET if styled else "")
