"""Tables and JSON on standard output; tables fit the terminal, and are whole in a pipe."""

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
    **dict.fromkeys(("asks", "ready"), YELLOW),
    "done": GREEN,
    **dict.fromkeys(("running", "working"), CYAN),
    "no": DIM,
}
GAP = "  "
NARROW = 6
"""Minimum cells of a column."""


def has_colours(stream: TextIO | None = None) -> bool:
    """Return True if the stream is a terminal with colours, or ``FORCE_COLOR`` is set.

    ``NO_COLOR`` wins over both.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    shown = stream or sys.stdout
    return shown.isatty() and os.environ.get("TERM") != "dumb"


def paint(text: str, look: str | None = None, stream: TextIO | None = None) -> str:
    """Return the text in a colour, by default in the colour of its word in ``LOOKS``."""
    look = look or LOOKS.get(text.strip())  # a cell may be padded
    if not look or not text or not has_colours(stream):
        return text
    return f"{look}{text}{PLAIN}"


class Column(Struct, frozen=True):
    """One column of a table, and its behaviour on a narrow terminal."""

    name: str
    drop: int | None = None
    """The order in which columns are left out, the smallest first; None is never left out."""
    room: int = 24
    """Cells for the last column; others are left out until it has them."""
    is_path: bool = False
    """Whether to cut the beginning instead of the end."""
    seek: str = ""
    """Text to keep visible when the last column is cut; case is ignored."""


def print_json(data: Any, stream: TextIO | None = None, *, indent: int | None = 2) -> None:
    """Print an object as JSON, in one line if ``indent`` is None."""
    out = stream or sys.stdout
    out.write(json_for(out, json.dumps(data, ensure_ascii=False, indent=indent)) + "\n")


def print_table(columns: Sequence[str | Column], rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows, each a mapping by column name; a row with an ``error`` is red and ends with it.

    On a terminal the last column gets the remaining room and is cut. Columns with a ``drop`` are
    left out if they leave too little.
    """
    wanted = [column if isinstance(column, Column) else Column(column) for column in columns]
    cells = {column.name: [_cell(row.get(column.name)) for row in rows] for column in wanted}
    widths = {name: max(map(cell_len, (name, *column))) for name, column in cells.items()}
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
    if value is None:
        return ""
    return visible(str(value).partition("\n")[0])


def _fit(name: str, text: str, widths: Mapping[str, int], paths: Collection[str]) -> str:
    if name in paths:
        return fit_end(text, widths[name])
    return text


def _fitted(columns: Sequence[Column], natural: Mapping[str, int], width: int) -> dict[str, int]:
    """Return the width of each column to show."""
    widths = dict(natural)
    last = columns[-1]
    can_drop = [column for column in columns if column.drop is not None]
    for column in sorted(can_drop, key=lambda each: each.drop or 0):
        others = _taken(widths) - widths[last.name]
        if others + min(widths[last.name], last.room) <= width:
            break
        del widths[column.name]
    rest = width - _taken(widths) + widths[last.name]
    widths[last.name] = min(widths[last.name], max(rest, last.room, NARROW))
    # No column is left to drop: take cells from the widest ones.
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
    cells.append(around(text, seek, widths[name]) if seek else fit(text, widths[name]))
    return GAP.join(cells).rstrip()


def around(text: str, seek: str, width: int) -> str:
    """Cut a text to ``width`` cells, with the marked match of ``seek`` in the middle."""
    found = re.search(re.escape(seek), text, re.IGNORECASE)
    if found is None:
        return fit(text, width)
    before = text[: found.start()]
    match = fit(found[0], width)
    behind = text[found.end() :]
    room = width - cell_len(match)
    left = min(cell_len(before), max(room // 2, room - cell_len(behind)))
    before = fit(before[::-1], left)[::-1]  # reversed, so that its beginning is cut
    return before + paint(match, MATCH) + fit(behind, room - cell_len(before))


def _broken_line(
    shown: Mapping[str, str], widths: Mapping[str, int], width: int | None, problem: str
) -> str:
    """Return a line with the problem in place of the last column, never cut."""
    cells = [pad(fit(shown[name], widths[name]), widths[name]) for name in list(shown)[:-1]]
    line = GAP.join([*cells, problem]).rstrip()
    return paint(line if width is None else wrap(line, width, 2), RED)
