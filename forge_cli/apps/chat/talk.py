"""The conversation of ``forge chat``: typed lines, keys and waiting messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
from rich.console import RenderableType
from rich.text import Text as Styled

from forge_cli.apps.chat.around import InputHistory, TypedLine
from forge_cli.apps.chat.drawing import ChatUI
from forge_cli.core.actions import CommandEvent
from forge_cli.core.approval import SessionMode
from forge_cli.core.bus import EventBus
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.events import ContextUsage, Event, ModeChanged
from forge_cli.core.interrupt import HUNG_UP, InterruptSignal, ResultStatus
from forge_cli.core.messages import Attachment
from forge_cli.core.text import visible
from forge_cli.files.settings import TraceLevel
from forge_cli.schema.tool import Tool
from forge_cli.ui.commands.session import words_at
from forge_cli.ui.facts import Facts
from forge_cli.ui.places import Places, pasted_image
from forge_cli.ui.queue import MessageQueue, TypedMessage
from forge_cli.ui.terminal.input import PlainInput, QuestionLeft
from forge_cli.ui.typed import TypedLines, is_message

TWICE = 1.0
"""Seconds within which a second Ctrl+C leaves."""
_MODE_HINTS: Mapping[SessionMode, str] = {
    "ask": "mode: ask, as the worker's policy says",
    "acceptEdits": "mode: accept edits; files in writable zones are edited without asking",
    "readOnly": "mode: read only; the model makes plans and changes nothing",
}
KEYS = (
    ("Esc", "interrupt; twice: go back to a message"),
    ("Shift+Tab", "ask, accept edits, or only read"),
    ("Ctrl+O", "show the last result whole"),
    ("Ctrl+J", "begin a new line"),
    ("Up", "edit the queued message; earlier lines"),
)
PROMPT = "> "
_AT_ONCE = frozenset({"exit", "mode"})
"""Commands that nothing has to wait for."""


class Talk(MessageQueue):
    """The conversation, which commands use as their ``Chat``."""

    display: ChatUI
    line: TypedLine

    def __init__(
        self,
        bus: EventBus,
        *,
        facts: Facts,
        tools: Callable[[], Sequence[Tool]],
        places: Places,
        history: InputHistory,
        signal: InterruptSignal,
    ) -> None:
        super().__init__(bus, signal)
        self.facts = facts
        self.tools = tools
        self.history = history
        self._lines = TypedLines(self, facts, places)
        self._last_stop = self._last_escape = float("-inf")

    @property
    def trace(self) -> TraceLevel:
        return self.display.trace

    def set_trace(self, level: TraceLevel) -> None:
        self.display.trace = level

    def show(self, shown: RenderableType) -> None:
        self.display.show(shown)

    def unfold(self, number: int | None) -> None:
        self.display.unfold(number)

    async def ask(self, prompt: str, instead: str) -> str | None:
        line = await self.display.ask(prompt)
        return line and line.strip()

    async def fill(self, tool: str, given: Mapping[str, Any]) -> Mapping[str, Any] | None:
        found = next((each for each in self.tools() if each.name == tool), None)
        if found is None:
            raise UsageError(f"unknown tool '{visible(tool)}'")
        return await self.display.fill(found, given)

    def attach(self, attachment: Attachment) -> None:
        self._lines.attached.append(attachment)
        self.line.redraw()

    @property
    def attached(self) -> Sequence[Attachment]:
        """Files for the next message."""
        return self._lines.attached

    def leave(self) -> None:
        super().leave()
        self.display.leave_questions()
        self.line.end()

    def note(self, event: Event) -> None:
        self.facts.note(event)
        super().note(event)
        match event:
            case CommandEvent(name=name) if name not in _AT_ONCE:
                self.command_began()
            case ModeChanged():
                self.line.hint(_MODE_HINTS[event.mode])
            case ContextUsage(rewound=int(line)) if event.origin is None:
                if words := words_at(self.facts.session, line):
                    self.line.edit(words)
            case _:
                pass

    def ended(self, status: ResultStatus) -> None:
        super().ended(status)
        if status == "interrupted" and not self.leaving:
            self.display.show(Styled("interrupted", "dim"))

    def say(self, text: str, attachments: Sequence[Attachment] = ()) -> None:
        """Send a message to the worker, now or after its current work."""
        try:
            self._lines.say(text, attachments)
        except UsageError as error:
            self._show_error(error)

    def press_stop(self, *, escape: bool = False, at_question: bool = False) -> None:
        """Handle Esc or Ctrl+C: leave a form, interrupt the work, or clear the line.

        Ctrl+C twice leaves. After an interrupt, queued messages are put back into the line.
        """
        now = time.monotonic()
        before = self._last_stop
        self._last_stop = float("-inf") if escape else now  # Esc, then Ctrl+C, is not twice
        if not escape and now - before < TWICE:
            self.stop("interrupted")
        elif self.display.leave_own_question():
            return
        elif self.busy or at_question:
            while self.queue:  # else the next message would start at once
                self.edit_queued()
            self.interrupt()
        elif self.line.clear_input() or escape:
            return
        elif self._lines.attached:
            self._lines.attached.clear()
            self.line.hint("attachments removed")
        else:
            self.line.hint("Ctrl+C again leaves")

    def paste_image(self) -> None:
        """Handle Ctrl+V: attach the image in the clipboard to the next message."""
        if image := pasted_image():
            self.attach(image)
        else:
            self.line.hint("no image in the clipboard; type the path of an image to attach it")

    def unfold_last(self) -> None:
        """Handle Ctrl+O: show the last result whole."""
        if not self.display.unfold_last():
            self.line.hint("there is no result yet")

    def press_escape(self) -> bool:
        """Handle Esc on an empty line while nothing runs; return True at the second time."""
        now = time.monotonic()
        before = self._last_escape
        self._last_escape = now
        if now - before >= TWICE:
            self.line.hint("Esc again goes back to a message")
        return now - before < TWICE

    def edit_queued(self) -> None:
        """Put the last queued message back into the line."""
        self.line.edit(self._lines.take_back() or "")

    def next_mode(self) -> None:
        """Switch to the next mode of the session."""
        modes = self.facts.modes
        if len(modes) == 1:
            self.line.hint("a read-only session has no other mode")
        else:
            following = modes[(modes.index(self.facts.mode) + 1) % len(modes)]
            self.bus.emit(CommandEvent("mode", (following,)))

    async def enter(self, text: str) -> None:
        """Handle an entered line without waiting for the answer to a message."""
        typed = text.strip()
        if not typed:
            return
        self.history.add(typed)
        if not is_message(typed):
            self.display.show_message(typed)
        try:
            await self._lines.enter(self, typed)
        except ForgeError as error:
            self._show_error(error)

    def _on_send(self, message: TypedMessage) -> None:
        self.display.show_message(message.text)

    def _on_change(self) -> None:
        self.line.redraw()

    def _show_error(self, error: ForgeError) -> None:
        self.display.show(f"{error}")


class PlainLines(TypedLine):
    """An input line that is read when all work before it is done."""

    def __init__(self, talk: Talk, ui: ChatUI, *, interactive: bool, typed: bytes = b"") -> None:
        self._talk, self._ui, self._interactive = talk, ui, interactive
        self._input = PlainInput(rest=typed)
        self._scope = anyio.CancelScope()

    @property
    def typed(self) -> bytes:
        """Input that was read and not used, which belongs to the next session."""
        return self._input.rest

    async def run(self) -> None:
        with self._scope:
            try:
                await self._read_all()
            except QuestionLeft as left:
                self._talk.stop(HUNG_UP if left.hung_up else "interrupted")
        if not self._talk.leaving:
            self._talk.leave()

    async def _read_all(self) -> None:
        await self._talk.wait_until_idle()
        while (line := await self._read()) is not None:
            await self._talk.enter(line)
            await self._talk.wait_until_idle()

    async def _read(self) -> str | None:
        return await (self._ui.read_line(PROMPT) if self._interactive else self._input.read())

    def hint(self, text: str) -> None:
        if self._interactive:
            self._ui.show(text)

    def end(self) -> None:
        self._scope.cancel()
