"""Results on a terminal: each form of a view drawn, whole or within bounds, and never obeyed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.highlighter import JSONHighlighter
from rich.segment import Segment
from rich.style import Style
from rich.table import Column, Table
from rich.text import Text as Styled
from rich.tree import Tree

from forge_cli import ui
from forge_cli.core.results import ResultValue
from forge_cli.core.text import readable, visible
from forge_cli.ui.terminal.diffs import DrawnDiff
from forge_cli.ui.views import FindRenderer, Grid, View, cell, no_renderers, view_of
from forge_cli.ui.wrap import NARROWEST, row_spans

LINES = 20
WIDE = 120
"""Columns where there is no terminal."""
BAR = "│ "
_CHECKS = {"[x] ": ("✓ ", "dim"), "[>] ": ("▸ ", "bold"), "[ ] ": ("☐ ", "")}
"""How a checklist marks what is done, what is being done and what is open, where there is a terminal."""


def render(
    value: ResultValue,
    find: FindRenderer = no_renderers,
    distribution: str | None = None,
    *,
    lines: int | None = LINES,
    exact: bool = False,
) -> RenderableType:
    """A result as something rich can print; ``lines`` bounds what is long, None shows all of it.

    ``distribution`` is that of the tool which gave it; ``exact`` is for what somebody decides upon.
    """
    return render_view(view_of(value, find, distribution, exact=exact), lines=lines)


def render_view(view: View, *, lines: int | None = LINES) -> RenderableType:
    """A view as something rich can print."""
    if view.form == "hidden":
        return Group()
    above = [plain(visible(view.note), style="dim")] if view.note else []
    if view.head and view.collapsed and lines is not None:
        return Group(*above, plain(f"{view.head} ...", exact=view.exact))
    above += [plain(view.head, exact=view.exact)] if view.head else []
    drawn = _draw(view, view.height(lines))
    return Group(*above, drawn) if above else drawn


def render_text(view: View) -> str:
    """A view as plain text, whole, where there is no terminal."""
    console = Console(file=StringIO(), width=WIDE, highlight=False, soft_wrap=True, no_color=True, force_terminal=False)
    with console.capture() as shown:
        console.print(render_view(view, lines=None))
    return shown.get().rstrip()


def plain(text: str, lines: int | None = None, style: str = "", *, exact: bool = True) -> Styled:
    """Untrusted text: hidden characters escaped, no markup read from it, cut after so many lines."""
    shown = (visible if exact else readable)(text, keep="\n\t").split("\n")
    if lines is not None and len(shown) > lines:
        shown = [*shown[:lines], f"... {len(shown) - lines} more lines"]
    return Styled("\n".join(shown), style=style)


@dataclass(frozen=True)
class Indented:
    """Something further to the right, and whole: rich's own Padding would crop the lines that are too long.

    On a terminal a long line continues under itself, ``hang`` further in, so that no part of it can pass for a line of
    ours at the left edge. With ``bar`` there is one along its left side: what comes from outside is framed by it.
    """

    inside: RenderableType
    by: int
    hang: int = 0
    bar: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        width = max(options.max_width - self.by, NARROWEST)
        for line in Segment.split_lines(console.render(self.inside, options.update(width=width))):
            margin = self.by
            for row in _rows(line, width, self.hang) if console.is_terminal else [line]:
                yield from (*self._margin(margin, console), *row, Segment.line())
                margin = self.by + self.hang

    def _margin(self, size: int, console: Console) -> Iterator[Segment]:
        if not self.bar or not console.is_terminal:
            yield Segment(" " * size)
            return
        before = self.by - len(BAR)
        yield from (Segment(" " * before), Segment(BAR, Style(dim=True)), Segment(" " * (size - self.by)))


def _rows(line: list[Segment], width: int, hang: int) -> Iterator[list[Segment]]:
    """A line in pieces that fit, each part of it in its own style."""
    spans = row_spans("".join(segment.text for segment in line), width, hang)
    for start, end in spans:
        row, place = list[Segment](), 0
        for segment in line:
            if text := segment.text[max(start - place, 0) : max(end - place, 0)]:
                row.append(Segment(text, segment.style))
            place += len(segment.text)
        yield row


@dataclass(frozen=True)
class Folded:
    """Something with columns, whose long lines are folded inside them; plain text is left to the terminal to wrap."""

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
            return Folded(ui.terminal.markdown.draw_code(shown.plain, view.language, view.name))
        case "json":
            return JSONHighlighter()(shown)
        case "markdown":
            return ui.terminal.markdown.DrawnMarkdown(shown.plain)
        case "checklist":
            return Checklist(shown)
        case _:
            return shown


@dataclass(frozen=True)
class Checklist:
    """Lines that begin with ``[x]``, ``[>]`` or ``[ ]``."""

    shown: Styled

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Styled]:
        for line in self.shown.split("\n"):
            mark, style = _CHECKS.get(line.plain[:4], ("", ""))
            yield Styled(mark + line.plain[4:], style) if mark and console.is_terminal else line


def _table(grid: Grid, lines: int | None, *, exact: bool) -> Table:
    columns = (Column(plain(visible(column)), overflow="fold") for column in grid.columns)
    table = Table(*columns, box=None, pad_edge=False)
    for row in grid.rows if lines is None else grid.rows[: lines + 1]:
        table.add_row(*(plain(item, exact=exact) for item in row))
    return table


def _tree(label: str, data: dict[str, Any] | list[Any], lines: int | None, view: View) -> Tree:
    tree = Tree(plain(visible(label)), hide_root=not label)
    entries = list(data.items() if isinstance(data, dict) else enumerate(data))
    for key, item in entries if lines is None else entries[: lines + 1]:
        if isinstance(item, dict | list) and item:
            tree.children.append(_tree(str(key) if isinstance(data, dict) else f"[{key}]", item, lines, view))
        else:
            shown = str(key) if view.names_only else f"{key}: {cell(item)}" if isinstance(data, dict) else cell(item)
            tree.add(plain((visible if view.exact else readable)(shown, keep=""), exact=view.exact))
    return tree
