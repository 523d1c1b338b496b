"""Text in the width of a terminal: measured in cells, broken between words, and cut only where nothing else helps."""

from __future__ import annotations

import os
import re
import shutil
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import IO

SHORTEST_PATH = 24
"""Cells that the end of a path has before anything behind it."""
NARROWEST = 10
"""Cells of a row, however far to the right it stands."""
LATER_WIDE = [
    ("\u2630", "\u2637"),
    ("\u268a", "\u268f"),
    ("\u4dc0", "\u4dff"),
    ("\U0001d300", "\U0001d376"),
]
"""Signs that Unicode 16 made wide, which an older Python does not know."""
JOINER, EMOJI = "\u200d", "\ufe0f"
RESET = "\x1b[0m"
_SGR = re.compile(r"(\x1b\[[\d;]*m)")


def cell_len(text: str) -> int:
    """How many cells a line takes; of emoji that are joined each counts, as a terminal may draw them one by one."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def cell_width(text: str) -> int:
    """The cells of a line with colours; SGR sequences take none."""
    return cell_len(_SGR.sub("", text))


@lru_cache(maxsize=4096)
def _cells(char: str) -> int:
    category = unicodedata.category(char)
    if char == EMOJI:  # it may make what stands before it as wide as an emoji
        return 1
    if category in ("Mn", "Me", "Cf"):
        return 0
    unknown = category == "Cn" and "\U0001f000" <= char <= "\U0001fbff"
    later = any(first <= char <= last for first, last in LATER_WIDE)
    return 2 if unknown or later or unicodedata.east_asian_width(char) in "WF" else 1


def wrap(text: str, width: int, indent: int = 0) -> str:
    """The lines of a text in rows of at most ``width`` cells; a long line continues ``indent`` further in.

    The blank at which a line is broken is left out, and nothing else.
    """
    wrapped: list[str] = []
    for line in text.split("\n"):
        wrapped += _with_margin(line, width, indent)
    return "\n".join(wrapped)


def _with_margin(line: str, width: int, indent: int) -> Iterator[str]:
    by = len(line) - len(line.lstrip(" ")) + indent
    first, *others = rows(line, width, by)
    yield first
    yield from (" " * by + row for row in others)


def rows(line: str, width: int, indent: int = 0) -> list[str]:
    """One line in pieces; those after the first leave room for a margin of ``indent``."""
    return [line[start:end] for start, end in row_spans(line, width, indent)]


def row_spans(line: str, width: int, indent: int = 0) -> list[tuple[int, int]]:
    """The places where the pieces of a line begin and end."""
    if cell_len(line) <= width:
        return [(0, len(line))]
    found: list[tuple[int, int]] = []
    units = list(_units(line))
    room = max(width, NARROWEST)
    start = first = 0
    while first < len(units):
        fit = first
        cells = 0
        while fit < len(units) and cells + units[fit][1] <= room:
            cells += units[fit][1]
            fit += 1
        fit = max(fit, first + 1)
        after = fit if fit == len(units) else _break(line, units, first, fit)
        end = units[after][0] if after < len(units) else len(line)
        found.append((start, end))
        first = after + 1 if _is_blank(line, units, after) else after
        start = units[first][0] if first < len(units) else len(line)
        room = max(width - indent, NARROWEST)
    return found


def _units(line: str) -> Iterator[tuple[int, int]]:
    """The units that must not be cut, each with its place and its cells: a letter with its marks, a joined emoji."""
    if line.isascii():
        yield from ((place, 1) for place in range(len(line)))
        return
    start = 0
    for place in range(1, len(line) + 1):
        if place == len(line) or (
            line[place - 1] != JOINER and line[place] != EMOJI and _cells(line[place])
        ):
            yield start, cell_len(line[start:place])
            start = place


def _break(line: str, units: list[tuple[int, int]], first: int, fit: int) -> int:
    """The unit before which to break, when those from ``fit`` on have no room: between words where that is possible."""
    begun = line[units[first][0] : units[fit][0]]
    leading = len(begun) - len(begun.lstrip(" "))
    for after in range(fit, first, -1):
        place = units[after][0]
        if place - units[first][0] <= leading:
            break
        if _is_blank(line, units, after) or is_break(line[place - 1], line[place]):
            return after
    return fit


def _is_blank(line: str, units: list[tuple[int, int]], at: int) -> bool:
    """Is a unit nothing but a blank? One with a mark over it is a letter like others."""
    if at == len(units):
        return False
    end = units[at + 1][0] if at + 1 < len(units) else len(line)
    return line[units[at][0] : end] == " "


def is_break(before: str, after: str) -> bool:
    """Can a line be broken between these two, though there is no blank? Chinese and Japanese can."""
    return is_ideograph(after) or (is_ideograph(before) and after.isalnum())


def is_ideograph(char: str) -> bool:
    """Is it a word by itself?"""
    return (
        not char.isascii()
        and unicodedata.category(char) == "Lo"
        and unicodedata.east_asian_width(char) in "WF"
    )


def fit(text: str, width: int) -> str:
    """One line in so many cells, its end replaced by an ellipsis where it is longer; SGR sequences take none."""
    if cell_width(text) <= width:
        return text
    kept = ""
    room = width - 1
    for number, piece in enumerate(_SGR.split(text)):
        if number % 2:
            kept += piece
            continue
        for (start, size), (end, _) in pairwise([*_units(piece), (len(piece), 0)]):
            room -= size
            if room < 0:
                return kept + "…"[: max(width, 0)] + (RESET if "\x1b" in kept else "")
            kept += piece[start:end]
    return kept


def fit_end(text: str, width: int) -> str:
    """The end of a line in so many cells, an ellipsis before it: of a path it says more than its beginning."""
    if cell_len(text) <= width:
        return text
    start = len(text)
    room = width - 1
    for place, size in reversed([*_units(text)]):
        room -= size
        if room < 0:
            break
        start = place
    return "…"[: max(width, 0)] + text[start:]


def fit_path(text: str, path: str, width: int) -> str:
    """A line that names a path, in so many cells: the path loses its beginning before the rest loses its end."""
    if not path or path not in text or cell_len(text) <= width:
        return fit(text, width)
    before, _, behind = text.partition(path)
    room = width - cell_len(before) - cell_len(behind)
    short = fit_end(path, max(room, min(width - cell_len(before), SHORTEST_PATH)))
    return fit(f"{before}{short}{behind}", width)


def pad(text: str, width: int) -> str:
    """Blanks behind a text, so that it takes so many cells."""
    return text + " " * (width - cell_len(text))


def terminal_width(stream: IO[str]) -> int | None:
    """The columns of the terminal behind a stream; None where there is none, and lines stay whole."""
    try:
        if not stream.isatty():
            return None
        return os.get_terminal_size(stream.fileno()).columns or shutil.get_terminal_size().columns
    except (OSError, ValueError):
        return None


def wrap_for(stream: IO[str], text: str, indent: int = 2) -> str:
    """A text as it looks best on a stream; what goes into a pipe or a file is not broken."""
    width = terminal_width(stream)
    return text if width is None else wrap(text, width, indent)
