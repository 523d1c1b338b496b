"""Page by page: what is higher than the terminal is shown in pieces, and somebody asks for each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from rich.console import Console, RenderableType
from rich.segment import Segment, Segments

from forge_cli.core.text import counted

MORE = "{}: [Enter] next, [e]nd, [n]o > "
ABOVE = "({} above: scroll up to see them again)"

Row = list[Segment]


def in_pages(shown: RenderableType, console: Console) -> list[list[Row]]:
    """The lines of something, as many to a page as fit above two lines of ours; all on one page without a terminal."""
    options = console.options.update(no_wrap=True, overflow="ignore")
    lines = list(Segment.split_lines(console.render(shown, options)))
    return list(_pages(lines, *console.size)) if console.is_terminal else [lines]


def _pages(lines: Sequence[Row], width: int, height: int) -> Iterator[list[Row]]:
    most = max(height - 2, 1)
    page, room = list[Row](), most
    for line in lines:
        rows = max(1, ceil(Segment.get_line_length(line) / width))
        if page and rows > room:
            yield page
            page, room = [], most
        page.append(line)
        room -= rows
    yield page


def print_page(page: Sequence[Row], console: Console) -> None:
    console.print(Segments([segment for line in page for segment in (*line, Segment.line())]), end="")


def say_below(pages: Sequence[Sequence[Row]]) -> str:
    return MORE.format(counted(sum(map(len, pages)), "more line"))


def say_above(pages: Sequence[Sequence[Row]]) -> str:
    return ABOVE.format(counted(sum(map(len, pages)), "line"))
