"""The inbox on a terminal: a list, and one item at a time opened from it."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
from anyio import to_thread
from msgspec.structs import replace

from forge_cli.cli.background.answering import answer_and_resume
from forge_cli.cli.drafts.reviewing import review_draft
from forge_cli.cli.notices import warn
from forge_cli.core.approval import ApprovalDecision
from forge_cli.core.errors import ExitCode, ForgeError, Terminated
from forge_cli.core.events import MessageEvent
from forge_cli.core.phrases import has_mark
from forge_cli.core.text import local_time, readable, visible
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.runtime.drafting import changes_of
from forge_cli.process.signals import in_loop
from forge_cli.record.inbox import InboxItem, inbox_items
from forge_cli.record.pending import Waiting, waiting_requests
from forge_cli.record.places import session_file
from forge_cli.record.runs import background_run
from forge_cli.sandbox.drafts.draft import find_draft
from forge_cli.ui.table import paint
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.terminal.follow import LogTail, event_of
from forge_cli.ui.terminal.input import LineReader
from forge_cli.ui.terminal.keys import QuestionLeft
from forge_cli.ui.terminal.prompts import ask_on_terminal
from forge_cli.ui.transcript.terminal import LOST
from forge_cli.ui.wrap import cell_width, fit, pad, terminal_width

VIA = "forge inbox"
"""The ``via`` of answers from here."""
MAX_LISTED = 9
"""Items that a digit opens."""
WATCH_INTERVAL = 1.0
"""Seconds between two looks while nothing is open."""


class InboxScreen:
    """The list on a terminal; the person opens its items one after the other."""

    def __init__(self, *, watch: bool) -> None:
        self._watch = watch
        self._items: list[InboxItem] = []
        self._done: set[tuple[str, ...]] = set()
        """Ended runs that were opened."""

    def run(self) -> None:
        """Show the list until the person leaves, or until nothing waits any more."""
        while True:
            self._items = self._look()
            self._draw()
            if not self._items and not self._watch:
                return
            try:
                key = in_loop(self._key)
            except QuestionLeft as left:
                if left.ctrl_c:
                    raise Terminated(ExitCode.INTERRUPTED) from None
                return
            if key == "q":
                return
            if key is None:  # the list has changed
                continue
            number = 0 if key == "\n" else int(key) - 1
            self._open(self._items[number])

    def _look(self) -> list[InboxItem]:
        return [item for item in inbox_items(lambda sentence: None) if item.key not in self._done]

    def _draw(self) -> None:
        if not self._items:
            sys.stderr.write("nothing waits for you\n")
            return
        width = (terminal_width(sys.stderr) or 80) - 1
        workers = max(cell_width(visible(item.worker)) for item in self._items[:MAX_LISTED])
        for number, item in enumerate(self._items[:MAX_LISTED], 1):
            state = item.state or {"question": "asks", "draft": "ready"}[item.kind]
            when = local_time(item.time, "%H:%M")
            head = f"{number}  "
            about = " ".join(visible(item.about).split())
            rest = fit(
                f"{when}  {pad(visible(item.worker), workers)}  {about}", width - len(head) - 8
            )
            sys.stderr.write(f"{head}{paint(f'{state:<6}', None, sys.stderr)}  {rest}\n")
        more = len(self._items) - MAX_LISTED
        if more > 0:
            sys.stderr.write(f"   and {more} more\n")

    async def _key(self) -> str | None:
        """Return the key that opens an item or leaves; None if the list has changed."""
        lines = _reader()
        changed = False
        pressed: str | None = None
        shown = min(len(self._items), MAX_LISTED)

        def means(key: str) -> bool:
            return key == "q" or (shown > 0 and (key == "\n" or _is_number(key, shown)))

        async with anyio.create_task_group() as tasks:

            async def wait_for_change() -> None:
                nonlocal changed
                known = [item.key for item in self._items]
                while True:
                    await anyio.sleep(WATCH_INTERVAL)
                    items = await to_thread.run_sync(self._look)
                    if [item.key for item in items] != known:
                        changed = True
                        lines.take_away()
                        tasks.cancel_scope.cancel()
                        return

            if self._watch:
                tasks.start_soon(wait_for_change)
            opens = "Enter or a number opens, " if shown else ""
            pressed = await lines.ask_key(f"{opens}[q]uit > ", means=means)
            tasks.cancel_scope.cancel()
        return None if changed else pressed

    # --- items

    def _open(self, item: InboxItem) -> None:
        try:
            match item.kind:
                case "question":
                    self._open_question(item)
                case "draft":
                    review_draft(changes_of(find_draft(item.draft or "")))
                case "ended":
                    self._done.add(item.key)
                    _show_end(item)
        except QuestionLeft as left:
            if left.ctrl_c or left.hung_up:
                raise Terminated(ExitCode.INTERRUPTED) from None
        except ForgeError as error:
            warn(str(error))

    def _open_question(self, item: InboxItem) -> None:
        """Ask the question, and give the answer; Esc goes back to the list."""
        found = _find_waiting(item)
        if found is None:
            warn("this question was answered elsewhere")
            return
        path, waiting = found
        sys.stderr.write(f"\n{visible(path.stem)}  {local_time(waiting.time, '%H:%M')}\n")
        if has_mark(dict(waiting.request.args)) and waiting.pid is None:
            warn(LOST)
        decision = replace(in_loop(_ask, waiting), via=VIA)
        _, chosen, _, runs = answer_and_resume(path, waiting.id, decision)
        word = "yes" if decision.approved else "no"
        then = ""
        if chosen.pid is None and runs:
            then = "; the session has started again"
        elif chosen.pid is None:
            then = f"; resume the session with -r {path.stem} once all is answered"
        sys.stderr.write(visible(f"{word} to {chosen.request.tool_name}{then}") + "\n\n")


async def _ask(waiting: Waiting) -> ApprovalDecision:
    """Ask on the terminal, without offering grants, which would not outlive the answer."""
    once = replace(waiting.request, once=True, offers=None, policy_files=None)
    return await ask_on_terminal(once, _reader(), PluginHost().renderer)


def _reader() -> LineReader:
    lines = LineReader(new_console())
    lines.leaves_at_end = True
    return lines


def _is_number(key: str, shown: int) -> bool:
    return key.isascii() and key.isdigit() and 1 <= int(key) <= shown


def _find_waiting(item: InboxItem) -> tuple[Path, Waiting] | None:
    for path, waiting in waiting_requests(lambda sentence: None):
        same = (path.stem, waiting.id) == (item.session, item.request)
        if same and waiting.answer is None:
            return path, waiting
    return None


def _show_end(item: InboxItem) -> None:
    """Print the last answer of an ended run, or what its process printed."""
    path = session_file(item.session)
    answer = ""
    for line in LogTail.last_screen(path).read():
        event = event_of(line)
        if isinstance(event, MessageEvent) and event.origin is None and event.message.text:
            answer = event.message.text
    run = background_run(item.session)
    if not path.exists() and run is not None and run.output.exists():
        answer = run.output.read_text("utf-8", "replace")
    sys.stderr.write(f"\n{readable(answer).rstrip()}\n")
    sys.stderr.write(f"forge logs {item.session} prints it whole\n\n")
