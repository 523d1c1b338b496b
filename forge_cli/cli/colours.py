"""Colours of verdicts and other words that are looked for, where standard output is a terminal that has them."""

from __future__ import annotations

import os
import sys
from typing import TextIO

PLAIN = "\x1b[0m"
BOLD, DIM, RED, GREEN, YELLOW, CYAN = (f"\x1b[{code}m" for code in (1, 2, 31, 32, 33, 36))
MATCH = "\x1b[1;33m"

LOOKS = {
    **dict.fromkeys(("preApproved", "ok", "yes", "completed", "success", "newly allowed"), GREEN),
    **dict.fromkeys(("ask", "by zone", "by rule", "missing", "parked", "limit", "interrupted", "newly asking"), YELLOW),
    **dict.fromkeys(("blocked", "refused", "FAILED", "failed", "drift", "error", "denied", "invalid_output"), RED),
    **dict.fromkeys(("newly blocked", "newly refused"), RED),
    "running": CYAN,
    "no": DIM,
}


def has_colours(stream: TextIO | None = None) -> bool:
    """Is it a terminal with colours, or are they forced? ``NO_COLOR`` wins."""
    if os.environ.get("NO_COLOR"):
        return False
    shown = stream or sys.stdout
    return bool(os.environ.get("FORCE_COLOR")) or (shown.isatty() and os.environ.get("TERM") != "dumb")


def paint(text: str, look: str | None = None, stream: TextIO | None = None) -> str:
    """The text in a colour; without one in that of the word that it is, if it is one that has a colour."""
    look = look or LOOKS.get(text.strip())
    return f"{look}{text}{PLAIN}" if look and text and has_colours(stream) else text
