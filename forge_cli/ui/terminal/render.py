"""Results on a terminal: each well-known kind has its looks, a custom kind goes through its renderer or its hints."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from itertools import groupby
from typing import Any

from rich.cells import chop_cells
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.markdown import Markdown
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Column, Table
from rich.text import Text as Styled
from rich.tree import Tree

from forge_cli.core.bounds import LATER, call_within, fault_text, is_fault
from forge_cli.core.difference import unified_diff
from forge_cli.core.hookspecs import Renderer
from forge_cli.core.results import Custom, Diff, DisplayHints, FileContent, FileList, Json, ResultValue, Text
from forge_cli.core.text import readable, visible
from forge_cli.core.wire import jsonable

FindRenderer = Callable[[str], Renderer | None]
LINES = 20
WIDE = 120
"""Columns where there is no terminal."""


def no_renderers(kind: str) -> Renderer | None:
    """Custom kinds as they are."""
    return None


def render(
    value: ResultValue, find: FindRenderer = no_renderers, *, lines: int | None = LINES, exact: bool = False
) -> RenderableType:
    """A result as something rich can print; ``lines`` bounds what is long, None shows all of it.

    ``exact`` is for what somebody decides upon: also the invisible parts of emoji and writing systems are shown.
    """
    view = View.of(value.display, lines, exact)
    match value:
        case Text(content=content) | FileContent(content=content):
            return view.show(content)
        case Diff():
            return render_diff(value, lines=view.lines)
        case FileList(files=files):
            more = [f"... {value.count - len(files)} more"] if value.count > len(files) else []
            return replace(view, exact=True).show("\n".join([*files, *more]) or "(empty)")
        case Json(data=data):
            return view.show(jsonable(data))
        case Custom():
            return _custom(value, find, view)


def render_text(value: ResultValue, find: FindRenderer = no_renderers) -> str:
    """A result as plain text, whole, where there is no terminal."""
    console = Console(file=StringIO(), width=WIDE, highlight=False, soft_wrap=True, no_color=True, force_terminal=False)
    with console.capture() as shown:
        console.print(render(value, find, lines=None))
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
    ours at the left edge.
    """

    inside: RenderableType
    by: int
    hang: int = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        width = max(options.max_width - self.by - self.hang, 20)
        for line in Segment.split_lines(console.render(self.inside, options.update(width=width))):
            margin = self.by
            for row in _rows(line, width) if console.is_terminal else [line]:
                yield from (Segment(" " * margin), *row, Segment.line())
                margin = self.by + self.hang


def _rows(line: list[Segment], width: int) -> list[list[Segment]]:
    """A line of one style in pieces that fit; lines of more styles come from what folds its lines itself."""
    if len(line) != 1 or line[0].cell_length <= width:
        return [line]
    return [[Segment(piece, line[0].style)] for piece in chop_cells(line[0].text, width)]


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


def render_diff(diff: Diff, *, lines: int | None = None) -> RenderableType:
    """What changes, line by line; a new file is all additions."""
    if diff.original is None and not diff.is_new:
        return Group(
            plain(f"replaces {diff.path}; the old content is too long to compare, or not text:"),
            plain(diff.modified, lines),
        )
    return Group(*_styled_lines(_unified(diff), lines))


def _unified(diff: Diff) -> list[str]:
    shown = unified_diff(diff.original or "", diff.modified, "/dev/null" if diff.is_new else diff.path, diff.path)
    return shown or [f"{visible(diff.path)}: {'an empty file' if diff.is_new else 'no change'}"]


def _styled_lines(lines: Sequence[str], limit: int | None) -> list[Styled]:
    styles = {"+": "green", "-": "red", "@": "cyan", "\\": "dim"}
    alike = groupby(lines[:limit], key=lambda line: styles.get(line[:1], ""))
    shown = [plain("\n".join(group), style=style) for style, group in alike]
    if limit is not None and len(lines) > limit:
        shown.append(plain(f"... {len(lines) - limit} more lines", style="dim"))
    return shown


def _custom(value: Custom, find: FindRenderer, view: View) -> RenderableType:
    renderer = find(value.kind)
    if renderer:
        try:
            drawn = call_within(LATER, "it", renderer, value)
            return render(drawn, no_renderers, lines=view.lines, exact=view.exact)
        except BaseException as error:  # third-party code: a renderer that fails only loses its looks
            if not is_fault(error):
                raise
            failed = plain(visible(f"(the renderer of {value.kind} failed: {fault_text(error)})"), style="dim")
            return Group(failed, _with_summary(value, view))
    return _with_summary(value, view)


def _with_summary(value: Custom, view: View) -> RenderableType:
    head = [plain(value.summary, exact=view.exact)] if value.summary else []
    return Group(*head, view.show(jsonable(value.data), label=value.kind))


@dataclass(frozen=True)
class View:
    """How a result would like to be shown; hints are third-party data, and one that makes no sense is not followed."""

    kind: str | None
    language: str
    lines: int | None
    exact: bool

    @classmethod
    def of(cls, hints: DisplayHints | None, lines: int | None, exact: bool) -> View:
        hints = hints or DisplayHints()
        height = 1 if hints.collapsed is True else hints.max_height
        if lines is not None and isinstance(height, int) and height > 0:
            lines = min(lines, height)
        return cls(hints.preferred_view, hints.language if isinstance(hints.language, str) else "text", lines, exact)

    def show(self, data: Any, label: str = "") -> RenderableType:
        """A string, or plain JSON data, the way it is wanted."""
        text = data if isinstance(data, str) else json.dumps(data, indent=2, ensure_ascii=False)
        shown = plain(text.removesuffix("\n"), self.lines, exact=self.exact)
        match self.kind:
            case "hidden":
                return Group()
            case "table" if isinstance(data, list) and data and all(isinstance(row, dict) for row in data):
                return Folded(_table(data, self), self.lines)
            case "tree" if isinstance(data, dict | list):
                return Folded(_tree(label, data, self), self.lines)
            case "code":
                return Folded(Syntax(shown.plain, self.language, background_color="default", word_wrap=True))
            case "markdown" if isinstance(data, str):
                return Folded(Markdown(shown.plain, hyperlinks=False))
            case _:
                return shown


def _table(rows: Sequence[dict[str, Any]], view: View) -> Table:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = Table(*(Column(plain(visible(column)), overflow="fold") for column in columns), box=None, pad_edge=False)
    for row in rows if view.lines is None else rows[: view.lines + 1]:
        table.add_row(*(plain(_cell(row.get(column, "")), exact=view.exact) for column in columns))
    return table


def _cell(item: Any) -> str:
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)


def _tree(label: str, data: dict[str, Any] | list[Any], view: View) -> Tree:
    tree = Tree(plain(visible(label)), hide_root=not label)
    entries = list(data.items() if isinstance(data, dict) else enumerate(data))
    for key, item in entries if view.lines is None else entries[: view.lines + 1]:
        if isinstance(item, dict | list) and item:
            tree.children.append(_tree(str(key), item, view))
        else:
            shown = f"{key}: {_cell(item)}"
            tree.add(plain((visible if view.exact else readable)(shown, keep=""), exact=view.exact))
    return tree
