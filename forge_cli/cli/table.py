"""Tables on standard output: aligned columns, the last one as wide as it needs to be; or JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from forge_cli.core.text import cut, visible

RED, PLAIN = "\x1b[31m", "\x1b[0m"


def print_json(data: Any) -> None:
    sys.stdout.write(json.dumps(data, ensure_ascii=False, indent=2) + "\n")


def print_table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]], *, broken: str = "error") -> None:
    """Rows by column name; one that has the key ``broken`` is red on a terminal, and ends with that text."""
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    sys.stdout.write(_line(columns, widths, room=None))
    for row, shown in zip(rows, cells, strict=True):
        failed = row.get(broken) is not None
        if failed:
            shown[-1] = _cell(row[broken])
        line = _line(shown, widths, room=None if failed else _room())
        sys.stdout.write(f"{RED}{line.rstrip()}{PLAIN}\n" if failed and _coloured() else line)


def _cell(value: Any) -> str:
    return "" if value is None else visible(str(value).partition("\n")[0])


def _line(cells: Sequence[str], widths: Sequence[int], room: int | None) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells[:-1], widths, strict=False)]
    line = "  ".join([*padded, cells[-1]]).rstrip()
    return (line if room is None else cut(line, room, "end")) + "\n"


def _room() -> int | None:
    """The width of the terminal; what goes into a pipe is not cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _coloured() -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")
