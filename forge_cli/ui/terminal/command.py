"""A command line at the prompt: its text, its folder and the verdict on each command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from forge_cli.core.approval import CommandRun, JudgedPart
from forge_cli.core.text import counted, visible
from forge_cli.ui.terminal.render import Indented, plain
from forge_cli.ui.views import near_home, short_place

MAX_PARTS = 20
"""Commands of a line to list at the prompt."""
HIDDEN = "(invisible characters are shown as escapes, such as \\x1b)"

_TAB = 8
_VERDICTS = {"preApproved": "green", "ask": "yellow", "blocked": "red"}


def draw_command(command: str) -> Iterator[RenderableType]:
    """Draw a command line behind a ``$``."""
    return draw_lines(command, first="$", others=">", style="bold")


def draw_lines(text: str, *, first: str, others: str, style: str = "") -> Iterator[RenderableType]:
    """Yield each line behind a mark; rows without a mark continue the line above."""
    for number, line in enumerate(text.split("\n")):
        mark = others if number else first
        yield Indented(plain(f"{mark} {visible(line.expandtabs(_TAB))}", style=style), 2, hang=2)
    if visible(text, keep="\n\t") != text:  # an attacker may hide a part of the command
        yield Indented(plain(HIDDEN, style="yellow"), 2, hang=2)


def draw_place(runs: CommandRun) -> RenderableType:
    """Draw the folder in which the line would run, and whether it is confined."""
    folder = near_home(runs.folder)
    if runs.confined:
        shown = plain(visible(f"in {folder}, confined"))
    else:
        shown = plain(visible(f"in {folder}, not confined"), style="yellow")
    return Indented(shown, 2, hang=4)


def draw_parts(parts: Sequence[JudgedPart]) -> Iterator[RenderableType]:
    """Draw the verdict on each command with its rule."""
    width = max(len(part.approval) for part in parts)
    for part in parts[:MAX_PARTS]:
        if part.where:
            where = f", {short_place(part.where)}"
        else:
            where = ""
        line = f"{part.approval:{width}}  {part.text}  ({part.reason}{where})"
        shown = plain(visible(line), style=_VERDICTS.get(part.approval, ""))
        yield Indented(shown, 2, hang=width + 2)
    if len(parts) > MAX_PARTS:
        more = counted(len(parts) - MAX_PARTS, "more part")
        yield Indented(plain(f"and {more}: ? lists them"), 2)
