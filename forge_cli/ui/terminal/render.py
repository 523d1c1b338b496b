"""Results on a terminal: views drawn whole or shortened, with escape sequences made visible."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from io import StringIO
from typing import Any

from msgspec import Struct
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.highlighter import JSONHighlighter
from rich.segment import Segment
from rich.style import Style
from rich.table import Column, Table
from rich.text import Text as Styled
from rich.tree import Tree

from forge_cli.core.results import ResultValue
from forge_cli.core.tables import cell_text
from forge_cli.core.text import counted, readable, visible
from forge_cli.ui.views import FindRenderer, Grid, View, no_renderers, view_of
from forge_cli.ui.wrap import NARROWEST, row_spans, rows

LINES = 20
"""Lines of a result to show by default."""
WIDE = 120
"""Columns without a terminal."""
BAR = "│ "
_CHECKS = {"[x] ": ("✓ ", "dim"), "[>] ": ("▸ ", "bold"), "[ ] ": ("☐ ", "")}
"""Symbols of done, current and open items of a checklist on a terminal."""


def render(
    value: ResultValue,
    find: FindRenderer = no_renderers,
    distribution: str | None = None,
    *,
    lines: int | None = LINES,
    exact: bool = False,
) -> RenderableType:
    """Return a result as a renderable; ``lines`` bounds its height, None shows all of it.

    ``distribution`` provides its tool. Use ``exact`` for a preview that a person decides on.
    """
    return render_view(view_of(value, find, distribution, exact=exact), lines=lines)


def render_view(view: View, *, lines: int | None = LINES) -> RenderableType:
    """Return a view as a renderable."""
    if view.form == "hidden":
        return Group()
    above = []
    if view.note:
        above = [plain(visible(view.note), style="dim")]
    if view.head and view.collapsed and lines is not None:
        return Group(*above, plain(f"{view.head} ...", exact=view.exact))
    if view.head:
        above.append(plain(view.head, exact=view.exact))
    drawn = _draw(view, view.height(lines))
    if above:
        return Group(*above, drawn)
    return drawn


def render_text(view: View) -> str:
    """Return a view as plain text, whole."""
    console = Console(
        file=StringIO(),
        width=WIDE,
        highlight=False,
        soft_wrap=True,
        no_color=True,
        force_terminal=False,
    )
    with console.capture() as shown:
        console.print(render_view(view, lines=None))
    return shown.get().rstrip()


def plain(text: str, lines: int | None = None, style: str = "", *, exact: bool = True) -> Styled:
    """Return untrusted text without markup, with hidden characters escaped, cut after ``lines``."""
    shown = (visible if exact else readable)(text, keep="\n\t").split("\n")
    if lines is not None and len(shown) > lines:
        shown = [*shown[:lines], f"... {len(shown) - lines} more lines"]
    return Styled("\n".join(shown), style=style)


class Indented(Struct, frozen=True):
    """An indented renderable whose long lines wrap; rich's Padding would crop them.

    On a terminal a long line continues ``hang`` cells further in, so that no part of it can imitate
    a line of forge at the left edge. ``bar`` draws a bar along the left side of untrusted content.
    """

    inside: RenderableType
    by: int
    hang: int = 0
    bar: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        width = max(options.max_width - self.by, NARROWEST)
        is_terminal = console.is_terminal
        margins = [self._margin(size, is_terminal) for size in (self.by, self.by + self.hang)]
        for line in _lines(self.inside, console, options.update(width=width)):
            rows = [line]
            if is_terminal:
                rows = list(_rows(line, width, self.hang))
            for number, row in enumerate(rows):
                yield from (*margins[number > 0], *row, Segment.line())

    def _margin(self, size: int, is_terminal: bool) -> list[Segment]:
        if not self.bar or not is_terminal:
            return [Segment(" " * size)]
        before = self.by - len(BAR)
        return [
            Segment(" " * before),
            Segment(BAR, Style(dim=True)),
            Segment(" " * (size - self.by)),
        ]


def _lines(
    inside: RenderableType, console: Console, options: ConsoleOptions
) -> Iterator[list[Segment]]:
    """Yield the lines of a renderable."""
    is_plain = isinstance(inside, Styled) and not inside.spans and "\t" not in inside.plain
    if isinstance(inside, Styled) and options.no_wrap and is_plain:
        # rich takes seconds to split a plain text of many lines.
        style = console.get_style(inside.style)
        width = options.max_width
        for line in inside.plain.split("\n"):
            yield [Segment(line[:width] + line[width:].rstrip(), style)]
    else:
        yield from Segment.split_lines(console.render(inside, options))


def _rows(line: list[Segment], width: int, hang: int) -> Iterator[list[Segment]]:
    """Yield the rows of a line, with the style of each segment."""
    spans = row_spans("".join(segment.text for segment in line), width, hang)
    for start, end in spans:
        row: list[Segment] = []
        place = 0
        for segment in line:
            if text := segment.text[max(start - place, 0) : max(end - place, 0)]:
                row.append(Segment(text, segment.style))
            place += len(segment.text)
        yield row


class Folded(Struct, frozen=True):
    """A table or tree whose long lines are folded within their columns."""

    inside: RenderableType
    lines: int | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        whole = console.render(self.inside, options.update(no_wrap=False, overflow="fold"))
        for number, line in enumerate(Segment.split_lines(whole)):
            if number == self.lines:
                yield from (Segment("..."), Segment.line())
                return
            yield from (*line, Segment.line())


def _draw(view: View, lines: int | None) -> RenderableType:
    match view.form:
        case "table":
            return Folded(_table(view.data, lines, exact=view.exact), lines)
        case "tree":
            return Folded(_tree(view.label, view.data, lines, view), lines)
        case "diff":
            return DrawnDiff(view.text.removesuffix("\n"), lines, exact=view.exact)
        case _:
            return _draw_text(view, plain(view.text.removesuffix("\n"), lines, exact=view.exact))


def _draw_text(view: View, shown: Styled) -> RenderableType:
    match view.form:
        case "code":
            # Imported here, because the parser and pygments are slow to load.
            from forge_cli.ui.terminal.markdown import draw_code

            return Folded(draw_code(shown.plain, view.language, view.name))
        case "json":
            return JSONHighlighter()(shown)
        case "markdown":
            from forge_cli.ui.terminal.markdown import DrawnMarkdown

            return DrawnMarkdown(shown.plain)
        case "checklist":
            return Checklist(shown)
        case _:
            return shown


class Checklist(Struct, frozen=True):
    """A text whose lines begin with ``[x]``, ``[>]`` or ``[ ]``."""

    shown: Styled

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Styled]:
        for line in self.shown.split("\n"):
            mark, style = _CHECKS.get(line.plain[:4], ("", ""))
            if mark and console.is_terminal:
                line = Styled(mark + line.plain[4:], style)
            yield line


def _table(grid: Grid, lines: int | None, *, exact: bool) -> Table:
    columns = (Column(plain(visible(column)), overflow="fold") for column in grid.columns)
    table = Table(*columns, box=None, pad_edge=False)
    # One more shows that rows were cut.
    for row in grid.rows if lines is None else grid.rows[: lines + 1]:
        table.add_row(*(plain(item, exact=exact) for item in row))
    return table


def _tree(label: str, data: dict[str, Any] | list[Any], lines: int | None, view: View) -> Tree:
    tree = Tree(plain(visible(label)), hide_root=not label)
    entries = list(data.items() if isinstance(data, dict) else enumerate(data))
    # One more shows that entries were cut.
    for key, item in entries if lines is None else entries[: lines + 1]:
        if isinstance(item, dict | list) and item:
            tree.children.append(
                _tree(str(key) if isinstance(data, dict) else f"[{key}]", item, lines, view)
            )
        else:
            shown = cell_text(item)
            if view.names_only:
                shown = str(key)
            elif isinstance(data, dict):
                shown = f"{key}: {shown}"
            tree.add(plain((visible if view.exact else readable)(shown, keep=""), exact=view.exact))
    return tree


# 9 digits at most, because int() refuses numbers of thousands of digits.
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?(.*)", re.DOTALL)
_STYLES = {
    sign: Style.parse(style)
    for sign, style in {"+": "green", "-": "red", "file": "bold", "": "dim"}.items()
}
_NUMBERS = Style(dim=True)
NOWHERE = "/dev/null"
TAB = 8


class DiffLine(Struct, frozen=True):
    """A line of a patch: a numbered line of a file, a ``file`` title, or other text."""

    sign: str
    text: str
    old: int | None = None
    new: int | None = None


def number_lines(lines: Sequence[str]) -> Iterator[DiffLine]:
    """Yield all lines of a patch; lines outside of hunks have no numbers."""
    old = new = old_left = new_left = hunks = place = 0
    while place < len(lines):
        line = lines[place]
        place += 1
        sign = line[:1] or " "  # some tools remove the blank of an empty line
        if (old_left > 0 or new_left > 0) and sign in " +-":
            is_old = sign != "+"
            is_new = sign != "-"
            yield DiffLine(sign, line[1:], old if is_old else None, new if is_new else None)
            old += is_old
            old_left -= is_old
            new += is_new
            new_left -= is_new
        elif hunk := _HUNK.fullmatch(line):
            old = int(hunk[1])
            new = int(hunk[3])
            old_left, new_left = (1 if size is None else int(size) for size in hunk.group(2, 4))
            if hunks or hunk[5]:
                yield DiffLine("", f"⋮ {hunk[5]}".rstrip())
            hunks += 1
        elif line.startswith("--- ") and place < len(lines) and lines[place].startswith("+++ "):
            yield DiffLine("file", _file_title(line[4:], lines[place][4:]))
            place += 1
            hunks = 0
        else:
            yield DiffLine("", line)


def _file_title(before: str, after: str) -> str:
    if before == NOWHERE:
        return f"{after} (new)"
    if after == NOWHERE:
        return f"{before} (deleted)"
    same = before == after or before.removeprefix("a/") == after.removeprefix("b/")
    if same:
        return after
    return f"{before} -> {after}"


class DrawnDiff(Struct, frozen=True):
    """A patch as a renderable, with line numbers on a terminal, unchanged elsewhere."""

    patch: str
    lines: int | None = None
    exact: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        lines = self.patch.split("\n")
        if console.is_terminal:
            shown = list(number_lines(lines))
            width: int | None = options.max_width
            columns = _columns(shown)
        else:
            shown = [_unnumbered(line) for line in lines]
            width = None
            columns = []
        for line in shown[: self.lines]:
            yield from self._draw(line, columns, width)
        if self.lines is not None and len(shown) > self.lines:
            left_out = f"... {counted(len(shown) - self.lines, 'more line')}"
            yield from (Segment(left_out, _NUMBERS), Segment.line())

    def _draw(
        self, line: DiffLine, columns: Sequence[tuple[str, int]], width: int | None
    ) -> Iterator[Segment]:
        # A tuple, because the empty sign of other lines is "in" every string.
        in_file = line.sign in tuple(" +-") and width is not None
        gutter = ""
        text = self._escaped(line)
        hang = 0
        if in_file:
            for side, size in columns:
                gutter += str(getattr(line, side) or "").rjust(size) + " "
            # Tab stops count the sign, as in unified_diff, which escapes lines that look alike.
            text = f"{line.sign} {text[1:]}"
            hang = 2
        style = _STYLES.get(line.sign)
        if width is None:
            drawn = [text]
        else:
            drawn = rows(text, max(width - len(gutter), NARROWEST), hang)
        for number, row in enumerate(drawn):
            if gutter:
                yield Segment(gutter if number == 0 else " " * len(gutter), _NUMBERS)
            yield from (Segment(" " * hang * bool(number) + row, style), Segment.line())

    def _escaped(self, line: DiffLine) -> str:
        escape = visible if self.exact else readable
        sign = line.sign if line.sign in tuple(" +-") else ""
        return (sign + escape(line.text, keep="\t")).expandtabs(TAB)


def _columns(lines: Sequence[DiffLine]) -> list[tuple[str, int]]:
    """Return the columns of line numbers with their widths; a new file has no old numbers."""
    columns = []
    for side in ("old", "new"):
        highest = max((getattr(line, side) or 0 for line in lines), default=0)
        if highest:
            columns.append((side, len(str(highest))))
    return columns


def _unnumbered(line: str) -> DiffLine:
    if line[:1] in tuple("+-"):
        return DiffLine(line[0], line[1:])
    return DiffLine("plain", line)
