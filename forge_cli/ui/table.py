"""Tables on standard output, fitted to a terminal, whole in a pipe, or JSON; and the colours of what is looked for."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TextIO

from msgspec import Struct

from forge_cli.core.text import json_for, visible
from forge_cli.ui.wrap import cell_len, fit, fit_end, pad, terminal_width, wrap

PLAIN = "\x1b[0m"
BOLD, DIM, RED, GREEN, YELLOW, CYAN = (f"\x1b[{code}m" for code in (1, 2, 31, 32, 33, 36))
MATCH = "\x1b[1;33m"

LOOKS = {
    **dict.fromkeys(("preApproved", "ok", "yes", "completed", "success", "newly allowed"), GREEN),
    **dict.fromkeys(
        ("ask", "by zone", "by rule", "missing", "parked", "limit", "interrupted", "newly asking"),
        YELLOW,
    ),
    **dict.fromkeys(
        ("blocked", "refused", "FAILED", "failed", "drift", "error", "denied", "invalid_output"),
        RED,
    ),
    **dict.fromkeys(("newly blocked", "newly refused"), RED),
    "running": CYAN,
    "no": DIM,
}
GAP = "  "
NARROW = 6
"""Cells that a column keeps, however narrow the terminal is."""


def has_colours(stream: TextIO | None = None) -> bool:
    """Is it a terminal with colours, or are they forced? ``NO_COLOR`` wins."""
    if os.environ.get("NO_COLOR"):
        return False
    shown = stream or sys.stdout
    return bool(os.environ.get("FORCE_COLOR")) or (
        shown.isatty() and os.environ.get("TERM") != "dumb"
    )


def paint(text: str, look: str | None = None, stream: TextIO | None = None) -> str:
    """The text in a colour; without one in that of the word that it is, if it is one that has a colour."""
    look = look or LOOKS.get(text.strip())
    return f"{look}{text}{PLAIN}" if look and text and has_colours(stream) else text


class Column(Struct, frozen=True):
    """One column: what it shows, and what happens to it where the terminal is too narrow for all of them."""

    name: str
    drop: int | None = None
    """Left out in this order, the smallest first; None stays."""
    room: int = 24
    """Cells that the last column should have before others are left out, if it needs them."""
    is_path: bool = False
    """Keeps its end where it is cut."""
    seek: str = ""
    """The text that must be seen in the last column, wherever it stands there; small and capital letters are alike."""


def print_json(data: Any, stream: TextIO | None = None, *, indent: int | None = 2) -> None:
    """An object as JSON, to standard output unless another stream is given; in one line without ``indent``."""
    out = stream or sys.stdout
    out.write(json_for(out, json.dumps(data, ensure_ascii=False, indent=indent)) + "\n")


def print_table(columns: Sequence[str | Column], rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows by column name; one that has the key ``error`` is red on a terminal, and ends with that text.

    On a terminal the last column gets the room that the others leave, and is cut; those that say when to ``drop`` them
    are left out where they would leave too little.
    """
    wanted = [column if isinstance(column, Column) else Column(column) for column in columns]
    cells = {column.name: [_cell(row.get(column.name)) for row in rows] for column in wanted}
    widths = {
        column.name: max(map(cell_len, (column.name, *cells[column.name]))) for column in wanted
    }
    width = terminal_width(sys.stdout)
    if width is not None:
        widths = _fitted(wanted, widths, width)
    sys.stdout.write(paint(_line({name: name for name in widths}, widths), BOLD) + "\n")
    seek = wanted[-1].seek if width is not None else ""
    paths = {column.name for column in wanted if column.is_path}
    for number, row in enumerate(rows):
        shown = {name: _fit(name, cells[name][number], widths, paths) for name in widths}
        if row.get("error") is None:
            sys.stdout.write(_line(shown, widths, seek) + "\n")
        else:
            sys.stdout.write(_broken_line(shown, widths, width, _cell(row["error"])) + "\n")


def _cell(value: Any) -> str:
    return "" if value is None else visible(str(value).partition("\n")[0])


def _fit(name: str, text: str, widths: Mapping[str, int], paths: Collection[str]) -> str:
    return fit_end(text, widths[name]) if name in paths else text


def _fitted(columns: Sequence[Column], natural: Mapping[str, int], width: int) -> dict[str, int]:
    """The columns that are shown, each with its cells."""
    widths = dict(natural)
    last = columns[-1]
    for column in sorted(
        (each for each in columns if each.drop is not None), key=lambda each: each.drop or 0
    ):
        others = _taken(widths) - widths[last.name]
        if others + min(widths[last.name], last.room) <= width:
            break
        del widths[column.name]
    widths[last.name] = min(
        widths[last.name], max(width - _taken(widths) + widths[last.name], last.room, NARROW)
    )
    while _taken(widths) > width and max(widths.values()) > NARROW:
        widest = max(widths, key=lambda name: widths[name])
        widths[widest] -= 1
    return widths


def _taken(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + len(GAP) * (len(widths) - 1)


def _line(shown: Mapping[str, str], widths: Mapping[str, int], seek: str = "") -> str:
    *others, last = shown.items()
    cells = [paint(pad(fit(text, widths[name]), widths[name])) for name, text in others]
    name, text = last
    return GAP.join(
        [*cells, around(text, seek, widths[name]) if seek else fit(text, widths[name])]
    ).rstrip()


def around(text: str, seek: str, width: int) -> str:
    """As much of a text as there is room for, with what is sought in the middle of it, and marked."""
    found = re.search(re.escape(seek), text, re.IGNORECASE)
    if found is None:
        return fit(text, width)
    before = text[: found.start()]
    match = fit(found[0], width)
    behind = text[found.end() :]
    room = width - cell_len(match)
    left = min(cell_len(before), max(room // 2, room - cell_len(behind)))
    before = fit(before[::-1], left)[::-1]
    return before + paint(match, MATCH) + fit(behind, room - cell_len(before))


def _broken_line(
    shown: Mapping[str, str], widths: Mapping[str, int], width: int | None, problem: str
) -> str:
    """A line whose problem takes the place of the last column, and is never cut."""
    names = list(shown)[:-1]
    line = GAP.join(
        [*(pad(fit(shown[name], widths[name]), widths[name]) for name in names), problem]
    ).rstrip()
    return paint(line if width is None else wrap(line, width, 2), RED)
