"""Text for people and models: escaping, cutting, counting and nearest names."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Collection, Container, Iterable, Iterator
from datetime import datetime
from math import floor, log10
from typing import IO, Literal

CutAt = Literal["lines", "middle", "end"]

MORE = "... [{} more characters]"
"""A mark for the end of a single line whose rest a reader may want."""

_MARKS: dict[CutAt, str] = {
    "lines": "\n[... {} characters cut ...]\n",
    "middle": " ... ",
    "end": "...",
}
UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U0001d159").union(
    map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)
"""Characters that Unicode calls printable, but that are invisible."""
_STACKED = 2
"""The most marks above or below one letter; more would overlap other lines."""
_IN_PLACE = (
    r"(?<=[^\x00-\xa0\u200c\u200d\ufe0e\ufe0f])[\ufe0e\ufe0f]|(?<=[^\x00-\xa0\u200c\u200d\ufe0e])[\u200c\u200d]"
    r"|(?<=[#*0-9])\ufe0f(?=\u20e3)"
    r"|(?<=\S)[\xa0\u202f](?=\S)|\u3000"
    r"|[\U0001f000-\U0001fbff]"  # symbols that are younger than this Python
)
"""Characters that emoji and writing systems need, each in its proper place.

Compiled only when needed, because most programs never do.
"""
_PARTS = re.compile(r"__|[./:]")
"""Separators of the parts of a tool's name in forge and other programs."""


def visible(text: str, *, keep: str = "") -> str:
    """Escape every character that readers could not recognise, except those in ``keep``.

    These are control and bidirectional characters, invisible, private or unassigned ones, spaces
    other than the plain one, and marks that are stacked or have no base character.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(text, keep))


def readable(text: str, *, keep: str = "\n\t", after: str = "") -> str:
    """Escape like ``visible``, but keep what emoji and writing systems need in its proper place.

    ``after`` is the text before a piece, if ``text`` is only a piece.
    """
    if text.isascii():
        return visible(text, keep=keep)
    places = {found.start() for found in re.finditer(_IN_PLACE, after + text)}
    return "".join(_shown(after + text, keep, places, len(after)))


_LONE = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, with which Python represents a byte that is not UTF-8."""


def json_for(stream: IO[str], text: str) -> str:
    """Return JSON for a stream; on a terminal, escape characters that readers could not recognise.

    The escaped JSON means the same. Names that are not UTF-8 are escaped for every stream.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    if not stream.isatty():
        return _LONE.sub(lambda found: _json_escape(found[0]), text)
    hidden = {char for char in set(text) if char != "\n" and _is_hidden(char)}
    return text.translate({ord(char): _json_escape(char) for char in hidden})


def _json_escape(char: str) -> str:
    # JSON escapes UTF-16 units, so a character outside of the first plane needs two escapes.
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _shown(text: str, keep: str, places: Container[int] = (), start: int = 0) -> Iterator[str]:
    """Yield the text from ``start`` on in pieces; characters at ``places`` are not escaped."""
    # The regular expression skips ordinary text quickly; the loop below sees odd characters only.
    odd = "".join(
        sorted(
            char
            for char in set(text)
            if char not in keep and (_is_hidden(char) or _is_stacking(char))
        )
    )
    end = start
    for found in re.finditer(f"[{re.escape(odd)}]+", text) if odd else ():
        yield text[end : max(end, found.start())]
        # A mark at the start of a line has nothing to stand on, so not even the first one is kept.
        marks = _STACKED if found.start() == 0 or text[found.start() - 1] in keep else 0
        for index, char in enumerate(found[0], found.start()):
            hidden = _is_hidden(char) and index not in places
            if _is_stacking(char):
                marks += 1
            else:
                marks = _STACKED if hidden else 0
            if index < start:
                continue
            if hidden or marks > _STACKED:
                yield char.encode("unicode_escape").decode("ascii")
            else:
                yield char
        end = max(start, found.end())
    yield text[end:]


def _is_hidden(char: str) -> bool:
    return not char.isprintable() or char in UNSEEN


def _is_stacking(char: str) -> bool:
    return unicodedata.combining(char) != 0 or unicodedata.category(char) == "Me"


def cut(text: str, limit: int, at: CutAt = "lines", *, mark: str | None = None) -> str:
    """Shorten a text to ``limit`` characters, with a mark in place of the rest.

    ``lines`` keeps head and tail of a text of many lines, cuts between two lines if possible, and
    reports how much is missing. ``middle`` keeps head and tail of one line, ``end`` only the head.
    ``mark`` replaces the usual mark; ``{}`` in it is the number of missing characters. If the mark
    needs half of the limit or more, the text ends with ``…`` instead. The result is never longer
    than the limit.
    """
    if len(text) <= limit:
        return text
    mark = mark or _MARKS[at]
    # Formatted with the largest possible number, so that there is room for any mark.
    room = limit - len(mark.format(len(text)))
    if room <= limit // 2:
        return f"{text[: limit - 1]}…" if limit > 0 else ""
    before, behind = {
        "lines": (room * 2 // 3, room // 3),
        "middle": (room // 2, room // 2),
        "end": (room, 0),
    }[at]
    head = text[:before]
    tail = text[len(text) - behind :]
    if at == "lines":
        head, tail = _whole_lines(head, tail, room // 10)
    return f"{head}{mark.format(len(text) - len(head) - len(tail))}{tail}"


def _whole_lines(head: str, tail: str, near: int) -> tuple[str, str]:
    if (end := head.rfind("\n", max(0, len(head) - near))) >= 0:
        head = head[:end]
    if (start := tail.find("\n", 0, near)) >= 0:
        tail = tail[start + 1 :]
    return head, tail


# A longer name, as a model may send, is compared by its beginning.
_LONGEST_NAME = 200


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the most likely known name for ``name``, whatever slash or dashes it begins with."""
    # Reversed, so that of names that differ in slash or dashes only, the first one is kept.
    bare = {each.lstrip("/-"): each for each in reversed(list(known))}
    if alike := _spelled_alike(name, bare.values()):
        return alike
    matches = difflib.get_close_matches(name.lstrip("/-"), list(bare), n=1, cutoff=0.6)
    return bare[matches[0]] if matches else None


def nearest_tool(name: str, known: Iterable[str]) -> str | None:
    """Return the tool that was meant; ``add`` and ``mcp.add`` both find ``demo__add``."""
    known = list(known)
    wanted = _PARTS.split(name)[-1].lower()
    same_end = [each for each in known if wanted and _PARTS.split(each)[-1].lower() == wanted]
    if not same_end:
        return nearest(name, known)
    return nearest(name, same_end) or same_end[0]


def as_spelled(name: str, known: Collection[str]) -> str:
    """Return the only known name that differs in case and separators at most; else ``name``."""
    if name in known:
        return name
    return _spelled_alike(name, known) or name


def _spelled_alike(name: str, known: Iterable[str]) -> str | None:
    letters = _letters(name)
    alike = [each for each in known if letters and _letters(each) == letters]
    return alike[0] if len(alike) == 1 else None


def _letters(name: str) -> str:
    return "".join(
        character for character in name[:_LONGEST_NAME].casefold() if character.isalnum()
    )


def did_you_mean(name: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """Return ``did you mean 'X'?`` for the nearest name; else ``otherwise``, or a list of all."""
    known = list(known)
    near = nearest(name, known)
    if near is not None:
        return f"did you mean '{near}'?"
    if otherwise is not None:
        return otherwise
    return f"there are: {', '.join(known) or 'none'}"


def dollars(cost: float) -> str:
    """Return an amount as text: ``$0``, ``$1,234.50``, or ``$0.00042`` below a cent."""
    if cost >= 0.01:
        return f"${cost:,.2f}"
    if not cost:
        return "$0"
    # Two significant digits.
    return f"${cost:.{1 - floor(log10(cost))}f}".rstrip("0")


def counted(number: float, what: str) -> str:
    """Return a number with its noun: ``1 call``, ``2 calls``."""
    shown = f"{number:,}" if isinstance(number, int) else f"{number:,g}"
    return f"{shown} {what}" if number == 1 else f"{shown} {what}s"


def local_time(time: str, shape: str = "%Y-%m-%d %H:%M:%S %z") -> str:
    """Return a recorded time in the reader's time zone; other text is returned unchanged."""
    try:
        return datetime.fromisoformat(time).astimezone().strftime(shape)
    except (ValueError, OverflowError):
        return time


def mend(text: str) -> str:
    """Join the halves of split characters, and replace lone halves."""
    if text.isascii() or not _LONE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class TextJoiner:
    """Joins text that arrives in pieces, even if a character is split between two of them."""

    def __init__(self) -> None:
        self._held = ""

    def add(self, piece: str) -> str:
        """Add a piece and return the text that is complete now."""
        piece = self._held + piece
        # A high surrogate at the end waits for its other half in the next piece.
        self._held = piece[-1] if piece and "\ud800" <= piece[-1] <= "\udbff" else ""
        return mend(piece.removesuffix(self._held))

    def close(self) -> str:
        """Return the rest of the text."""
        held = self._held
        self._held = ""
        return mend(held)
