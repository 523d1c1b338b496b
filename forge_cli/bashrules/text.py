"""Text made safe to print, with every invisible or misleading character escaped."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U0001d159").union(
    map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)
"""Characters that Unicode calls printable, and that are invisible."""
_MAX_MARKS = 2
"""Marks above or below one letter; more of them reach into other lines."""
_MAX_SHOWN = 160
"""Characters of a command in a sentence."""


def visible(text: str) -> str:
    """Return the text with control, bidirectional, invisible and stacked characters escaped."""
    if text.isascii() and text.isprintable():
        return text
    odd = frozenset(char for char in set(text) if _is_hidden(char) or _is_mark(char))
    return "".join(_escaped(text, odd)) if odd else text


def _escaped(text: str, odd: frozenset[str]) -> Iterator[str]:
    marks = _MAX_MARKS  # a mark at the beginning has no letter to belong to
    for char in text:
        if char not in odd:
            marks = 0
            yield char
            continue
        marks = marks + 1 if _is_mark(char) else _MAX_MARKS
        is_seen = marks <= _MAX_MARKS and not _is_hidden(char)
        yield char if is_seen else char.encode("unicode_escape").decode("ascii")


def _is_hidden(char: str) -> bool:
    return not char.isprintable() or char in UNSEEN


def _is_mark(char: str) -> bool:
    return unicodedata.combining(char) != 0 or unicodedata.category(char) == "Me"


def shortened(text: str) -> str:
    """Return the text, cut if it is too long for a sentence."""
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."
