"""A conversation, or a request that waits, on a terminal: who said what, and calls with verdicts and results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace
from rich.console import Console, Group

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

LINES, LETTERS = 200, 20_000
"""How much of what somebody said is shown."""
LOST = "its input contained a secret, which the session log does not contain: it will be denied"


def draw(told: Transcript, console: Console, find: FindRenderer = no_renderers) -> None:
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
        """One line, whatever is in it."""
        self._console.print(Indented(plain(visible(text), style=style), 2 * depth, hang=4), end="")

    def said(self, entry: Said) -> None:
        self._console.print()
        self.line(entry.depth, f"{entry.who}:", "bold")
        if entry.text.strip():
            words = plain(cut(entry.text.rstrip(), LETTERS), LINES, exact=False)
            by = 2 * entry.depth + 2
            drawn = entry.who != "user" and self._console.is_terminal
            self._console.print(
                Indented(DrawnMarkdown(words.plain) if drawn else words, by), end=""
            )
        for name in entry.files:
            self.line(entry.depth + 1, f"with {name}", "dim")

    def _text(self, entry: Called) -> str:
        """The lines of a call that failed."""
        if entry.error is None or entry.shown is None:
            return ""
        return render_text(view_of(entry.shown, self._find, entry.distribution))

    def _block(self, block: ArgumentBlock, by: int) -> None:
        """A long arg as it was written, each line behind a mark."""
        is_command = block.language == "sh"
        if not is_command:
            self._console.print(
                Indented(plain(visible(f"{block.name}:"), style="cyan"), by), end=""
            )
        text = plain(cut(block.text.rstrip("\n"), LETTERS), LINES).plain
        marks = ("$", ">") if is_command else ("|", "|")
        for row in draw_lines(text, first=marks[0], others=marks[1], style="cyan"):
            self._console.print(Indented(row, by - 2 * is_command), end="")

    def called(self, entry: Called) -> None:
        short, blocks = split_args(entry.args, entry.shown)
        args = (
            {name: entry.args[name] for name in short}
            if isinstance(entry.args, Mapping)
            else entry.args
        )
        self.line(entry.depth, " ".join(["  >", entry.tool, *shown_arguments(args)]), "cyan")
        for block in blocks:
            self._block(block, 2 * entry.depth + 4)
        if entry.verdict:
            self.line(entry.depth, f"    {entry.verdict}", "dim")
        is_read = isinstance(entry.shown, FileContent) and self._console.is_terminal
        if entry.status:
            size = (
                f" · {counted(len(entry.shown.text().splitlines()), 'line')}"
                if is_read and entry.shown
                else ""
            )
            look = "green" if entry.status == "success" else "red"
            self.line(entry.depth, f"    {cut(entry.ending(self._text(entry)), 2000)}{size}", look)
        if entry.shown is not None and not is_read:
            shown = render(entry.shown, self._find, entry.distribution)
            self._console.print(Indented(shown, 2 * entry.depth + 6, bar=True), end="")


def shown_arguments(args: Any) -> list[str]:
    """Arguments as they are traced; what is not an object is shown as it is."""
    return (
        format_args(args)
        if isinstance(args, Mapping)
        else [json.dumps(jsonable(args), ensure_ascii=False)]
    )


def draw_request(
    session: str,
    waiting: Waiting,
    console: Console,
    find: FindRenderer = no_renderers,
    *,
    whole: bool = False,
) -> None:
    """A request that waits, as at a prompt, with the command that answers it; the preview is cut unless ``whole``."""

    def line(text: str, style: str = "") -> None:
        console.print(Indented(plain(visible(text), style=style), 0, hang=4), end="")

    line(f"{session} {waiting.id} {local_time(waiting.time)}", "bold")
    request = replace(waiting.request, once=True, offers=None)
    console.print(Indented(describe(request, find, None if whole else RESULT_LINES), 2), end="")
    if whole and request.folded:
        console.print(Indented(Group(*unfolded(request)), 2), end="")
    if has_mark(dict(request.args)) and waiting.pid is None:
        line(f"  {LOST}", "red")
    if waiting.pid is not None:
        line(
            f"  asked at a prompt right now, by the process {waiting.pid}: the first answer counts",
            "dim",
        )
    if (answer := waiting.answer) is not None:
        note = f": {answer.note}" if answer.note else ""
        line(f"  answered: {'yes' if answer.approved else 'no'}{note}", "green")
    else:
        line(
            f"  answer with: forge approvals answer {random_end(session)} {waiting.id.removeprefix('approval_')} yes"
        )
        if request.folded and not whole:
            line(f"  see all of it with: forge approvals list {random_end(session)}", "dim")
