"""Unified diffs on a terminal: each line coloured, with its number in the old and in the new file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions
from rich.segment import Segment
from rich.style import Style

from forge_cli.core.text import counted, readable, visible
from forge_cli.ui.wrap import NARROWEST, rows

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?(.*)", re.DOTALL)
_STYLES = {sign: Style.parse(style) for sign, style in {"+": "green", "-": "red", "file": "bold", "": "dim"}.items()}
_NUMBERS = Style(dim=True)
NOWHERE = "/dev/null"
TAB = 8


@dataclass(frozen=True)
class DiffLine:
    """A line of a file with its numbers, or one about files: a ``file`` begins, or whatever else stands in a patch."""

    sign: str
    text: str
    old: int | None = None
    new: int | None = None


def number_lines(lines: Sequence[str]) -> Iterator[DiffLine]:
    """The lines of a patch; what does not belong to a hunk has no number, and none of them is lost."""
    old = new = old_left = new_left = hunks = place = 0
    while place < len(lines):
        line, place = lines[place], place + 1
        sign = line[:1] or " "
        if (old_left > 0 or new_left > 0) and sign in " +-":
            is_old, is_new = sign != "+", sign != "-"
            yield DiffLine(sign, line[1:], old if is_old else None, new if is_new else None)
            old, old_left, new, new_left = old + is_old, old_left - is_old, new + is_new, new_left - is_new
        elif hunk := _HUNK.fullmatch(line):
            old, new = int(hunk[1]), int(hunk[3])
            old_left, new_left = (1 if size is None else int(size) for size in hunk.group(2, 4))
            if hunks or hunk[5]:
                yield DiffLine("", f"⋮ {hunk[5]}".rstrip())
            hunks += 1
        elif line.startswith("--- ") and place < len(lines) and lines[place].startswith("+++ "):
            yield DiffLine("file", _file_title(line[4:], lines[place][4:]))
            place, hunks = place + 1, 0
        else:
            yield DiffLine("", line)


def _file_title(before: str, after: str) -> str:
    if before == NOWHERE:
        return f"{after} (new)"
    if after == NOWHERE:
        return f"{before} (deleted)"
    same = before == after or before.removeprefix("a/") == after.removeprefix("b/")
    return after if same else f"{before} -> {after}"


@dataclass(frozen=True)
class DrawnDiff:
    """A patch as something rich can print; where there is no terminal, it stays the patch that it is."""

    patch: str
    lines: int | None = None
    exact: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        lines = self.patch.split("\n")
        shown = list(number_lines(lines)) if console.is_terminal else [_unnumbered(line) for line in lines]
        width = options.max_width if console.is_terminal else None
        columns = _columns(shown) if console.is_terminal else ()
        for line in shown[: self.lines]:
            yield from self._draw(line, columns, width)
        if self.lines is not None and len(shown) > self.lines:
            left_out = f"... {counted(len(shown) - self.lines, 'more line')}"
            yield from (Segment(left_out, _NUMBERS), Segment.line())

    def _draw(self, line: DiffLine, columns: Sequence[tuple[str, int]], width: int | None) -> Iterator[Segment]:
        in_file = line.sign in tuple(" +-") and width is not None
        numbers = [str(getattr(line, side) or "").rjust(size) + " " for side, size in columns] if in_file else []
        gutter = "".join(numbers)
        # the tab stops by which unified_diff knows that no two lines look the same count the sign
        text = f"{line.sign} {self._escaped(line)[1:]}" if in_file else self._escaped(line)
        room = None if width is None else max(width - len(gutter), NARROWEST)
        hang = 2 if in_file else 0
        style = _STYLES.get(line.sign)
        for number, row in enumerate([text] if room is None else rows(text, room, hang)):
            if gutter:
                yield Segment(gutter if number == 0 else " " * len(gutter), _NUMBERS)
            yield from (Segment(" " * hang * bool(number) + row, style), Segment.line())

    def _escaped(self, line: DiffLine) -> str:
        escape = visible if self.exact else readable
        sign = line.sign if line.sign in tuple(" +-") else ""
        return (sign + escape(line.text, keep="\t")).expandtabs(TAB)


def _columns(lines: Sequence[DiffLine]) -> list[tuple[str, int]]:
    """The columns of numbers, with their widths: a file that is new has no old ones."""
    highest = {side: max((getattr(line, side) or 0 for line in lines), default=0) for side in ("old", "new")}
    return [(side, len(str(number))) for side, number in highest.items() if number]


def _unnumbered(line: str) -> DiffLine:
    return DiffLine(line[0], line[1:]) if line[:1] in tuple("+-") else DiffLine("plain", line)
