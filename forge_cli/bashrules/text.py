"""Text of commands made safe to print: every character that cannot be seen for what it is, is escaped."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U0001d159").union(
    map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)
"""Marks and letters that Unicode calls printable, and that show nothing."""
_MARKS_AT_MOST = 2
"""Marks above or below one letter; more of them run into other lines."""
_SHOWN_AT_MOST = 160


def visible(text: str) -> str:
    """Return the text with control, bidirectional, invisible and stacked characters escaped."""
    if text.isascii() and text.isprintable():
        return text
    odd = frozenset(char for char in set(text) if _is_hidden(char) or _is_mark(char))
    return "".join(_escaped(text, odd)) if odd else text


def _escaped(text: str, odd: frozenset[str]) -> Iterator[str]:
    marks = _MARKS_AT_MOST  # a mark at the beginning has no letter to stand on
    for char in text:
        if char not in odd:
            marks = 0
            yield char
            continue
        marks = marks + 1 if _is_mark(char) else _MARKS_AT_MOST
        is_seen = marks <= _MARKS_AT_MOST and not _is_hidden(char)
        yield char if is_seen else char.encode("unicode_escape").decode("ascii")


def _is_hidden(char: str) -> bool:
    return not char.isprintable() or char in UNSEEN


def _is_mark(char: str) -> bool:
    return unicodedata.combining(char) != 0 or unicodedata.category(char) == "Me"


def shortened(text: str) -> str:
    """Return the beginning of a text that is too long for a sentence."""
    return text if len(text) <= _SHOWN_AT_MOST else f"{text[: _SHOWN_AT_MOST - 3]}..."
