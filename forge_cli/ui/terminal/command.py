"""A command line at the prompt: as it was written, where it would run, and what is said of each of its commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from forge_cli.core.approval import CommandRun, JudgedPart
from forge_cli.core.text import counted, visible
from forge_cli.ui.terminal.render import Indented, plain
from forge_cli.ui.views import near_home, short_place

PARTS = 20
"""Commands of a line that are listed at the prompt."""
HIDDEN = "(what cannot be seen is shown as an escape, such as \\x1b)"

_TAB = 8
_VERDICTS = {"preApproved": "green", "ask": "yellow", "blocked": "red"}


def draw_command(command: str) -> Iterator[RenderableType]:
    return draw_lines(command, first="$", others=">", style="bold")


def draw_lines(text: str, *, first: str, others: str, style: str = "") -> Iterator[RenderableType]:
    """Each line as it was written, behind a mark of its own: a row without one belongs to the line above it."""
    for number, line in enumerate(text.split("\n")):
        mark = others if number else first
        yield Indented(plain(f"{mark} {visible(line.expandtabs(_TAB))}", style=style), 2, hang=2)
    if visible(text, keep="\n\t") != text:
        yield Indented(plain(HIDDEN, style="yellow"), 2, hang=2)


def draw_place(runs: CommandRun) -> RenderableType:
    """The folder in which it would run, and whether confined."""
    state = "confined" if runs.confined else "not confined"
    return Indented(
        plain(
            visible(f"in {near_home(runs.folder)}, {state}"),
            style="" if runs.confined else "yellow",
        ),
        2,
        hang=4,
    )


def draw_parts(parts: Sequence[JudgedPart]) -> Iterator[RenderableType]:
    """The verdict on each command, by the rule that it met."""
    width = max(len(part.approval) for part in parts)
    for part in parts[:PARTS]:
        where = f", {short_place(part.where)}" if part.where else ""
        line = f"{part.approval:{width}}  {part.text}  ({part.reason}{where})"
        yield Indented(
            plain(visible(line), style=_VERDICTS.get(part.approval, "")), 2, hang=width + 2
        )
    if len(parts) > PARTS:
        yield Indented(plain(f"and {counted(len(parts) - PARTS, 'more command')}: ? lists them"), 2)
