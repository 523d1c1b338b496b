"""Text for people and models: made safe to show, cut to a length, counted, and with the nearest known name."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable
from typing import Literal

CutAt = Literal["lines", "middle", "end"]

MORE = "... [{} more characters]"
"""A mark for the end of one line of which somebody may want to see the rest."""

_MARKS: dict[CutAt, str] = {"lines": "\n[... {} characters cut ...]\n", "middle": " ... ", "end": "..."}
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


def cut(text: str, limit: int, at: CutAt = "lines", *, mark: str | None = None) -> str:
    """A text that is too long, without what is more than ``limit``, and a mark in its place.

    ``lines`` keeps head and tail of a text of many lines, cut between two of them where that is near, and says how
    much is gone; ``middle`` keeps head and tail of one line, ``end`` the head. A ``mark`` of your own may say ``{}``,
    how many characters are gone. A limit that has room for more than the mark holds for all of it.
    """
    if len(text) <= limit:
        return text
    mark = mark or _MARKS[at]
    room = limit - len(mark.format(len(text)))
    room = room if room > limit // 2 else limit
    before, behind = {"lines": (room * 2 // 3, room // 3), "middle": (room // 2, room // 2), "end": (room, 0)}[at]
    head, tail = text[:before], text[len(text) - behind :]
    if at == "lines":
        head, tail = _whole_lines(head, tail, room // 10)
    return f"{head}{mark.format(len(text) - len(head) - len(tail))}{tail}"


def _whole_lines(head: str, tail: str, near: int) -> tuple[str, str]:
    if (end := head.rfind("\n", max(0, len(head) - near))) >= 0:
        head = head[:end]
    if (start := tail.find("\n", 0, near)) >= 0:
        tail = tail[start + 1 :]
    return head, tail


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that somebody who wrote ``name`` most likely meant."""
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def did_you_mean(name: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """``did you mean 'X'?``, with the nearest name; where none is near ``otherwise``, which lists them unless given."""
    known = list(known)
    near = nearest(name, known)
    if near is not None:
        return f"did you mean '{near}'?"
    return f"there are: {', '.join(known) or 'none'}" if otherwise is None else otherwise


def counted(number: float, what: str) -> str:
    """``1 call``, ``2 calls``."""
    shown = f"{number:,}" if isinstance(number, int) else f"{number:,g}"
    return f"{shown} {what}" if number == 1 else f"{shown} {what}s"
