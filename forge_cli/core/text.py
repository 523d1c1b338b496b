"""Text for people and models: made safe to show, cut to a length, counted, and with the nearest known name."""

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
"""A mark for the end of one line of which somebody may want to see the rest."""

_MARKS: dict[CutAt, str] = {
    "lines": "\n[... {} characters cut ...]\n",
    "middle": " ... ",
    "end": "...",
}
UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U0001d159").union(
    map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)
"""Marks and letters that Unicode calls printable, and of which nothing is seen."""
_STACKED = 2
"""Marks above or below one letter; more of them run into other lines."""
_IN_PLACE = (
    r"(?<=[^\x00-\xa0\u200c\u200d\ufe0e\ufe0f])[\ufe0e\ufe0f]|(?<=[^\x00-\xa0\u200c\u200d\ufe0e])[\u200c\u200d]"
    r"|(?<=[#*0-9])\ufe0f(?=\u20e3)"
    r"|(?<=\S)[\xa0\u202f](?=\S)|\u3000"
    r"|[\U0001f000-\U0001fbff]"  # symbols that are younger than this Python
)
"""Compiled where it is needed: most programs never do."""
_SURROGATE = "[\ud800-\udfff]"
_PARTS = re.compile(r"__|[./:]")
"""Between the parts of a tool's name, as forge and other programs write them."""


def visible(text: str, *, keep: str = "") -> str:
    """The text with every character escaped that cannot be seen for what it is; ``keep`` stay as they are.

    Control and bidirectional characters, what is invisible, private or unassigned, spaces other than the plain one, and
    marks that are stacked or have nothing to stand on.
    """
    return text if text.isascii() and text.isprintable() else "".join(_shown(text, keep))


def readable(text: str, *, keep: str = "\n\t", after: str = "") -> str:
    """As visible, for an answer or a result: what emoji and writing systems need in its place stays there.

    ``after`` is what stands before a text that is only a piece.
    """
    if text.isascii():
        return visible(text, keep=keep)
    places = {found.start() for found in re.finditer(_IN_PLACE, after + text)}
    return "".join(_shown(after + text, keep, places, len(after)))


_LONE = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, as which Python reads a byte that is not UTF-8."""


def json_for(stream: IO[str], text: str) -> str:
    """JSON as a stream gets it: on a terminal what cannot be seen for what it is is escaped, which means the same.

    Bytes of names that are not UTF-8 are escaped everywhere, since JSON is UTF-8.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    if not stream.isatty():
        return _LONE.sub(lambda found: _json_escape(found[0]), text)
    return text.translate(
        {ord(char): _json_escape(char) for char in set(text) if char != "\n" and _is_hidden(char)}
    )


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(
        f"\\u{units[place]:02x}{units[place + 1]:02x}" for place in range(0, len(units), 2)
    )


def _shown(text: str, keep: str, places: Container[int] = (), start: int = 0) -> Iterator[str]:
    """The text from ``start`` on, in pieces; what stands at one of the places stays as it is."""
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
        marks = _STACKED if found.start() == 0 or text[found.start() - 1] in keep else 0
        for index, char in enumerate(found[0], found.start()):
            hidden = _is_hidden(char) and index not in places
            if _is_stacking(char):
                marks += 1
            else:
                marks = _STACKED if hidden else 0
            if index >= start:
                yield (
                    char.encode("unicode_escape").decode("ascii")
                    if hidden or marks > _STACKED
                    else char
                )
        end = max(start, found.end())
    yield text[end:]


def _is_hidden(char: str) -> bool:
    return not char.isprintable() or char in UNSEEN


def _is_stacking(char: str) -> bool:
    return unicodedata.combining(char) != 0 or unicodedata.category(char) == "Me"


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


_LONGEST_NAME = 200


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that somebody who wrote ``name`` most likely meant, with any slash or dashes before it."""
    bare = {each.lstrip("/-"): each for each in reversed(list(known))}
    if alike := _spelled_alike(name, bare.values()):
        return alike
    matches = difflib.get_close_matches(name.lstrip("/-"), list(bare), n=1, cutoff=0.6)
    return bare[matches[0]] if matches else None


def nearest_tool(name: str, known: Iterable[str]) -> str | None:
    """The tool that was meant; ``add`` and ``mcp.add`` find ``demo__add``, which begins with the name of its server."""
    known = list(known)
    wanted = _PARTS.split(name)[-1].lower()
    same_end = [each for each in known if wanted and _PARTS.split(each)[-1].lower() == wanted]
    if not same_end:
        return nearest(name, known)
    return nearest(name, same_end) or same_end[0]


def as_spelled(name: str, known: Collection[str]) -> str:
    """The known name that differs from ``name`` only in case and separators, if there is exactly one; else ``name``."""
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
    """``did you mean 'X'?``, with the nearest name; where none is near ``otherwise``, which lists them unless given."""
    known = list(known)
    near = nearest(name, known)
    if near is not None:
        return f"did you mean '{near}'?"
    return f"there are: {', '.join(known) or 'none'}" if otherwise is None else otherwise


def dollars(cost: float) -> str:
    """An amount as people read it: ``$0``, ``$1,234.50``, and with two digits below a cent: ``$0.00042``."""
    if cost >= 0.01:
        return f"${cost:,.2f}"
    return f"${cost:.{1 - floor(log10(cost))}f}".rstrip("0") if cost else "$0"


def counted(number: float, what: str) -> str:
    """``1 call``, ``2 calls``."""
    shown = f"{number:,}" if isinstance(number, int) else f"{number:,g}"
    return f"{shown} {what}" if number == 1 else f"{shown} {what}s"


def local_time(time: str, shape: str = "%Y-%m-%d %H:%M:%S %z") -> str:
    """A time of the record where the reader is; what is not a time is left as it is."""
    try:
        return datetime.fromisoformat(time).astimezone().strftime(shape)
    except (ValueError, OverflowError):
        return time


def mend(text: str) -> str:
    """The halves of a character that came apart are joined, lone ones replaced."""
    if text.isascii() or not re.search(_SURROGATE, text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class TextJoiner:
    """Mends text that comes in pieces: half a character at the end of one waits for the next."""

    def __init__(self) -> None:
        self._held = ""

    def add(self, piece: str) -> str:
        """Take a piece, and give the text that is whole now."""
        piece = self._held + piece
        self._held = piece[-1] if piece and "\ud800" <= piece[-1] <= "\udbff" else ""
        return mend(piece.removesuffix(self._held))

    def close(self) -> str:
        """The rest, and no more will follow."""
        held = self._held
        self._held = ""
        return mend(held)
