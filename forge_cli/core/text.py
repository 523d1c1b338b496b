"""Foreign text made safe to show: what a terminal would obey, or an eye would miss, becomes a visible escape."""

from __future__ import annotations

import unicodedata

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


def visible(text: str, *, keep: str = "") -> str:
    """The text with control, bidirectional, invisible and unencodable characters escaped; ``keep`` stay as they are."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char in keep or not _is_hidden(char) else _escape(char) for char in text)


def _is_hidden(char: str) -> bool:
    return unicodedata.category(char) in _HIDDEN


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def counted(number: float, what: str) -> str:
    """``1 call``, ``2 calls``."""
    shown = f"{number:,}" if isinstance(number, int) else f"{number:,g}"
    return f"{shown} {what}" if number == 1 else f"{shown} {what}s"
