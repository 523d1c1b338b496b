"""Text in the width of a terminal: measuring, wrapping and cutting in cells."""

from __future__ import annotations

import os
import re
import shutil
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import IO

MIN_PATH = 24
"""Cells that the end of a path keeps before the text behind it is cut."""
NARROWEST = 10
"""Minimum cells of a row, whatever its indentation."""
LATER_WIDE = [
    ("\u2630", "\u2637"),
    ("\u268a", "\u268f"),
    ("\u4dc0", "\u4dff"),
    ("\U0001d300", "\U0001d376"),
]
"""Characters that are wide since Unicode 16, which an older Python does not know."""
JOINER, EMOJI = "\u200d", "\ufe0f"  # zero-width joiner, and variation selector 16
RESET = "\x1b[0m"
_SGR = re.compile(r"(\x1b\[[\d;]*m)")


def cell_len(text: str) -> int:
    """Return the cells of a line; joined emoji count one by one, as some terminals draw them."""
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


def cell_width(text: str) -> int:
    """Return the cells of a line without its SGR sequences."""
    return cell_len(_SGR.sub("", text))


@lru_cache(maxsize=4096)
def _cells(char: str) -> int:
    category = unicodedata.category(char)
    if char == EMOJI:  # it can make the character before it one cell wider
        return 1
    if category in ("Mn", "Me", "Cf"):
        return 0
    unknown = category == "Cn" and "\U0001f000" <= char <= "\U0001fbff"  # emoji of a newer Unicode
    later = any(first <= char <= last for first, last in LATER_WIDE)
    if unknown or later or unicodedata.east_asian_width(char) in "WF":
        return 2
    return 1


def wrap(text: str, width: int, indent: int = 0) -> str:
    """Wrap a text to ``width`` cells; long lines continue ``indent`` cells further in.

    Only the blank at which a line is broken is left out.
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
    """Return the rows of a line; all but the first leave room for ``indent``."""
    return [line[start:end] for start, end in row_spans(line, width, indent)]


def row_spans(line: str, width: int, indent: int = 0) -> list[tuple[int, int]]:
    """Return the start and end of each row of a line."""
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
        fit = max(fit, first + 1)  # a unit may be wider than the row
        after = fit
        if fit < len(units):
            after = _break(line, units, first, fit)
        end = units[after][0] if after < len(units) else len(line)
        found.append((start, end))
        first = after
        if _is_blank(line, units, after):
            first += 1
        start = units[first][0] if first < len(units) else len(line)
        room = max(width - indent, NARROWEST)
    return found


def _units(line: str) -> Iterator[tuple[int, int]]:
    """Yield position and cells of each unit: a letter with its marks, or a joined emoji."""
    if line.isascii():
        yield from ((place, 1) for place in range(len(line)))
        return
    start = 0
    for place in range(1, len(line) + 1):
        if place < len(line):
            is_joined = line[place - 1] == JOINER or line[place] == EMOJI
            if is_joined or not _cells(line[place]):
                continue
        yield start, cell_len(line[start:place])
        start = place


def _break(line: str, units: list[tuple[int, int]], first: int, fit: int) -> int:
    """Return the unit before which to break, at most ``fit``, between words if possible."""
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
    """Return True for a plain space without combining marks."""
    if at == len(units):
        return False
    end = units[at + 1][0] if at + 1 < len(units) else len(line)
    return line[units[at][0] : end] == " "


def is_break(before: str, after: str) -> bool:
    """Return True if a line can be broken between two characters, as in Chinese and Japanese."""
    return is_ideograph(after) or (is_ideograph(before) and after.isalnum())


def is_ideograph(char: str) -> bool:
    """Return True if the character is a word by itself."""
    return (
        not char.isascii()
        and unicodedata.category(char) == "Lo"
        and unicodedata.east_asian_width(char) in "WF"
    )


def fit(text: str, width: int) -> str:
    """Cut the end of a line to ``width`` cells, with an ellipsis; keep SGR sequences."""
    if cell_width(text) <= width:
        return text
    kept = ""
    room = width - 1
    for number, piece in enumerate(_SGR.split(text)):
        if number % 2:  # an SGR sequence
            kept += piece
            continue
        for (start, size), (end, _) in pairwise([*_units(piece), (len(piece), 0)]):
            room -= size
            if room < 0:
                return kept + "…"[: max(width, 0)] + (RESET if "\x1b" in kept else "")
            kept += piece[start:end]
    return kept


def fit_end(text: str, width: int) -> str:
    """Cut the beginning of a line to ``width`` cells; the end of a path says more."""
    if cell_len(text) <= width:
        return text
    start = len(text)
    room = width - 1
    for place, size in reversed([*_units(text)]):
        room -= size
        if room < 0:
            break
        start = place
    return "…"[: max(width, 0)] + text[start:]  # no ellipsis in 0 cells


def fit_path(text: str, path: str, width: int) -> str:
    """Cut a line that names a path: first the beginning of the path, then the end of the line."""
    if not path or path not in text or cell_len(text) <= width:
        return fit(text, width)
    before, _, behind = text.partition(path)
    room = width - cell_len(before) - cell_len(behind)
    short = fit_end(path, max(room, min(width - cell_len(before), MIN_PATH)))
    return fit(f"{before}{short}{behind}", width)


def pad(text: str, width: int) -> str:
    """Pad a text with blanks to ``width`` cells."""
    return text + " " * (width - cell_len(text))


def terminal_width(stream: IO[str]) -> int | None:
    """Return the columns of the terminal of a stream; None if it is no terminal."""
    try:
        if not stream.isatty():
            return None
        # Some pseudo-terminals report 0 columns.
        return os.get_terminal_size(stream.fileno()).columns or shutil.get_terminal_size().columns
    except (OSError, ValueError):  # a closed stream, or one without a descriptor
        return None


def wrap_for(stream: IO[str], text: str, indent: int = 2) -> str:
    """Wrap a text for a stream; text for a pipe or a file is not wrapped."""
    width = terminal_width(stream)
    if width is None:
        return text
    return wrap(text, width, indent)
