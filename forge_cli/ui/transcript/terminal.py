"""Transcripts and waiting requests on a terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace
from rich.console import Console, Group, RenderableType

from forge_cli.core.phrases import has_mark
from forge_cli.core.results import FileContent
from forge_cli.core.text import counted, cut, local_time, visible
from forge_cli.core.wire import jsonable
from forge_cli.record.log import random_end
from forge_cli.record.pending import Waiting
from forge_cli.ui.terminal.calls import format_args
from forge_cli.ui.terminal.command import draw_lines
from forge_cli.ui.terminal.markdown import DrawnMarkdown
from forge_cli.ui.terminal.prompts import describe, unfolded
from forge_cli.ui.terminal.render import LINES as RESULT_LINES
from forge_cli.ui.terminal.render import Indented, plain, render, render_text
from forge_cli.ui.transcript.entries import (
    ArgumentBlock,
    Called,
    Noted,
    Said,
    Transcript,
    split_args,
)
from forge_cli.ui.views import FindRenderer, no_renderers, view_of

MAX_LINES = 200
MAX_CHARACTERS = 20_000
"""Limits of a message to show."""
MAX_ENDING = 2000
"""Characters of the status and error of a call."""
LOST = "its input contained a secret, which the session log does not contain: it will be denied"


def draw(told: Transcript, console: Console, find: FindRenderer = no_renderers) -> None:
    """Print a transcript."""
    page = _Page(console, find)
    page.line(0, f"{told.session}: {told.worker} with {told.model}, {told.started}", "bold")
    page.line(0, f"in {told.workspace}", "dim")
    for entry in told.entries:
        match entry:
            case Said():
                page.said(entry)
            case Called():
                page.called(entry)
            case Noted():
                page.line(entry.depth, f"-- {entry.text}", "dim")


class _Page:
    def __init__(self, console: Console, find: FindRenderer) -> None:
        self._console = console
        self._find = find

    def line(self, depth: int, text: str, style: str = "") -> None:
        """Print untrusted text as one line."""
        self._console.print(Indented(plain(visible(text), style=style), 2 * depth, hang=4), end="")

    def said(self, entry: Said) -> None:
        self._console.print()
        self.line(entry.depth, f"{entry.who}:", "bold")
        if entry.text.strip():
            words = plain(cut(entry.text.rstrip(), MAX_CHARACTERS), MAX_LINES, exact=False)
            shown: RenderableType = words
            if entry.who != "user" and self._console.is_terminal:
                shown = DrawnMarkdown(words.plain)
            self._console.print(Indented(shown, 2 * entry.depth + 2), end="")
        for name in entry.files:
            self.line(entry.depth + 1, f"with {name}", "dim")

    def _text(self, entry: Called) -> str:
        """Return the output of a failed call, which may contain its error."""
        if entry.error is None or entry.shown is None:
            return ""
        return render_text(view_of(entry.shown, self._find, entry.distribution))

    def _block(self, block: ArgumentBlock, by: int) -> None:
        """Print a long argument, each line behind a mark."""
        is_command = block.language == "sh"
        if not is_command:
            name = plain(visible(f"{block.name}:"), style="cyan")
            self._console.print(Indented(name, by), end="")
        text = plain(cut(block.text.rstrip("\n"), MAX_CHARACTERS), MAX_LINES).plain
        marks = ("$", ">") if is_command else ("|", "|")
        for row in draw_lines(text, first=marks[0], others=marks[1], style="cyan"):
            self._console.print(Indented(row, by - 2 * is_command), end="")

    def called(self, entry: Called) -> None:
        short, blocks = split_args(entry.args, entry.shown)
        args: Any = entry.args
        if isinstance(args, Mapping):
            args = {name: args[name] for name in short}
        self.line(entry.depth, " ".join(["  >", entry.tool, *shown_arguments(args)]), "cyan")
        for block in blocks:
            self._block(block, 2 * entry.depth + 4)
        if entry.verdict:
            self.line(entry.depth, f"    {entry.verdict}", "dim")
        is_read = isinstance(entry.shown, FileContent) and self._console.is_terminal
        if entry.status:
            ended = cut(entry.ending(self._text(entry)), MAX_ENDING)
            if is_read and entry.shown:
                ended += f" · {counted(len(entry.shown.text().splitlines()), 'line')}"
            look = "green" if entry.status == "success" else "red"
            self.line(entry.depth, f"    {ended}", look)
        if entry.shown is not None and not is_read:
            shown = render(entry.shown, self._find, entry.distribution)
            self._console.print(Indented(shown, 2 * entry.depth + 6, bar=True), end="")


def shown_arguments(args: Any) -> list[str]:
    """Return arguments as in the trace; in a damaged log they may be no object."""
    if isinstance(args, Mapping):
        return format_args(args)
    return [json.dumps(jsonable(args), ensure_ascii=False)]


def draw_request(
    session: str,
    waiting: Waiting,
    console: Console,
    find: FindRenderer = no_renderers,
    *,
    whole: bool = False,
) -> None:
    """Print a waiting request and how to answer it; cut the preview unless ``whole``."""

    def line(text: str, style: str = "") -> None:
        console.print(Indented(plain(visible(text), style=style), 0, hang=4), end="")

    line(f"{session} {waiting.id} {local_time(waiting.time)}", "bold")
    request = replace(waiting.request, once=True, offers=None)  # an answer from outside counts once
    console.print(Indented(describe(request, find, None if whole else RESULT_LINES), 2), end="")
    if whole and request.folded:
        console.print(Indented(Group(*unfolded(request)), 2), end="")
    if has_mark(dict(request.args)) and waiting.pid is None:  # a running process still has it
        line(f"  {LOST}", "red")
    if waiting.pid is not None:
        asks = f"process {waiting.pid} asks this at its prompt now"
        line(f"  {asks}; the first answer counts", "dim")
    if (answer := waiting.answer) is not None:
        note = f": {answer.note}" if answer.note else ""
        line(f"  answered: {'yes' if answer.approved else 'no'}{note}", "green")
    else:
        names = f"{random_end(session)} {waiting.id.removeprefix('approval_')}"
        line(f"  to answer, run: forge approvals answer {names} yes")
        if request.folded and not whole:
            line(f"  to see all of it, run: forge approvals list {random_end(session)}", "dim")
