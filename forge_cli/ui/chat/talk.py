"""A conversation between a person and a worker: what each line that is typed means, and what waits for its turn."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import anyio
from rich.console import RenderableType
from rich.text import Text as Styled

from forge_cli.core.bus import EventBus, new_id
from forge_cli.core.ended import ResultStatus
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.events import CommandEvent, Event, Interrupt, ManualToolInvoke, ToolResult, UserInput
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.core.messages import Attachment
from forge_cli.core.text import visible
from forge_cli.core.tool import Tool
from forge_cli.core.values import dataclass
from forge_cli.files.settings import TraceLevel
from forge_cli.ui.chat.commands.table import run_line
from forge_cli.ui.chat.facts import Facts
from forge_cli.ui.chat.history import InputHistory
from forge_cli.ui.chat.places import Places
from forge_cli.ui.terminal.slash import is_command

TWICE = 1.0
"""Seconds within which a second Ctrl+C leaves."""
SHELL = "shell"
"""The tool behind ``!command``."""
MANUAL = "manual_"
"""How the ids of calls begin that a person makes."""


@dataclass(frozen=True)
class TypedMessage:
    """What a person says to the worker."""

    text: str
    attachments: tuple[Attachment, ...] = ()


class Display(Protocol):
    """Where a conversation is shown."""

    def show(self, shown: RenderableType) -> None: ...

    def show_message(self, text: str) -> None:
        """Show what the person said, now that it is taken up."""
        ...

    async def ask(self, prompt: str) -> str | None: ...

    async def fill(self, tool: Tool, given: Mapping[str, Any]) -> Mapping[str, Any] | None: ...


class TypedLine(Protocol):
    """The line that is being typed."""

    def hint(self, text: str) -> None:
        """Show this for a moment."""
        ...

    def clear_input(self) -> bool:
        """Empty the line; False where it is empty already."""
        ...

    def redraw(self) -> None:
        """Something has changed that is always shown."""
        ...

    def end(self) -> None:
        """Read nothing more."""
        ...


class Talk:
    """The ``Chat`` that commands are run in; the worker is reached by events on the bus only.

    ``began`` and ``ended`` are told by whoever runs the worker. Messages that are typed while one is worked on wait
    here, so that leaving or taking one back needs nobody else.
    """

    display: Display
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
        trace: tuple[Callable[[], TraceLevel], Callable[[TraceLevel], None]],
    ) -> None:
        self.bus = bus
        self.facts = facts
        self.tools = tools
        self.history = history
        self.queue: deque[TypedMessage] = deque()
        """Messages that wait for the one before them."""
        self.since: float | None = None
        """When the message at hand was sent, by the monotonic clock."""
        self.exit_reason: str | None = None
        """Why it ended, where that was not the person's wish to leave in peace."""
        self.leaving = False
        self._places = places
        self._signal = signal
        self._trace, self._set_trace = trace
        self._attachments: list[Attachment] = []
        self._calls = 0
        self._exit_sent = False
        self._last_stop = float("-inf")
        self._idle = anyio.Event()
        self._idle.set()

    @property
    def busy(self) -> bool:
        """Is there something that an interrupt would stop?"""
        return self.since is not None or self._calls > 0

    @property
    def trace(self) -> TraceLevel:
        return self._trace()

    def set_trace(self, level: TraceLevel) -> None:
        self._set_trace(level)

    def show(self, shown: RenderableType) -> None:
        self.display.show(shown)

    async def ask(self, prompt: str, default: str = "") -> str | None:
        line = await self.display.ask(prompt)
        return line if line is None else line.strip() or default

    async def fill(self, tool: str, given: Mapping[str, Any]) -> Mapping[str, Any] | None:
        found = next((each for each in self.tools() if each.name == tool), None)
        if found is None:
            raise UsageError(f"there is no tool '{visible(tool)}'")
        return await self.display.fill(found, given)

    def attach(self, attachment: Attachment) -> None:
        self._attachments.append(attachment)
        self.line.redraw()

    @property
    def attached(self) -> Sequence[Attachment]:
        """What goes along with the next message."""
        return self._attachments

    def leave(self) -> None:
        """End the conversation: what runs is interrupted, and what waits is not taken up."""
        self.leaving = True
        self.queue.clear()
        if self.busy:
            self._interrupt(self.exit_reason or "interrupted")
        if not self._exit_sent:
            self.bus.emit(CommandEvent("exit"))
        self.line.end()

    def stop(self, reason: str) -> None:
        """A signal wants the process to end."""
        self.exit_reason = reason
        self.leave()

    def note(self, event: Event) -> None:
        """Every event of the bus comes by here."""
        self.facts.note(event)
        match event:
            case CommandEvent(name="exit"):
                self._exit_sent = True
            case ManualToolInvoke(tool_call_id=None):
                if not self.busy:
                    self._signal.reset()
                self._calls += 1
                self._settle()
            case ToolResult(tool_call_id=call) if call.startswith(MANUAL) and event.origin is None:
                if self._calls and not event.parent_call_id:
                    self._calls -= 1
                    self._settle()
            case _:
                pass

    def began(self) -> None:
        """The worker has taken a message up."""
        self.since = self.since or time.monotonic()
        self._settle()

    def ended(self, status: ResultStatus) -> None:
        """The worker is done with a message; the next one is sent once everything about this one was told."""
        self.since = None
        if status == "interrupted" and not self.leaving:
            self.display.show(Styled("interrupted", "dim"))
        asyncio.get_running_loop().call_soon(self._send_next)

    async def wait_until_idle(self) -> None:
        """Return when nothing is worked on and nothing waits."""
        await self._idle.wait()

    def say(self, text: str, attachments: Sequence[Attachment] = ()) -> None:
        """Say something to the worker, now or after what it works on."""
        try:
            mentioned = tuple(self._places.attachments(text))
        except UsageError as error:
            self._show_error(error)
            return
        waiting, self._attachments = tuple(self._attachments), []
        self.queue.append(TypedMessage(text, (*attachments, *waiting, *mentioned)))
        self._send_next()

    def press_stop(self, *, escape: bool = False) -> None:
        """Esc or Ctrl+C: interrupts what runs, else clears the line; Ctrl+C twice within a second leaves."""
        now, before = time.monotonic(), self._last_stop
        self._last_stop = float("-inf") if escape else now
        if not escape and now - before < TWICE:
            self.stop("interrupted")
        elif self.busy:
            self._interrupt("interrupted")
        elif not self.line.clear_input() and not escape:
            self.line.hint("Ctrl+C again leaves")

    async def enter(self, text: str) -> None:
        """Do what an entered line says; a message is not waited for."""
        typed = text.strip()
        if not typed:
            return
        self.history.add(typed)
        try:
            if typed.startswith("!") or is_command(typed):
                self.display.show_message(typed)
            if typed.startswith("!"):
                self._run_shell(typed[1:].strip())
            elif is_command(typed):
                await run_line(self, typed)
            else:
                self.say(typed)
        except ForgeError as error:
            self._show_error(error)

    def _run_shell(self, command: str) -> None:
        if not command:
            raise UsageError("! alone runs nothing", hint="as in: !git status")
        if SHELL not in self.facts.manual_tools:
            raise UsageError(
                "this worker has no shell tool that a person may call", hint="add 'shell: {}' to its toolsets"
            )
        self.bus.emit(ManualToolInvoke(SHELL, {"command": command}))

    def _send_next(self) -> None:
        if self.since is None and self.queue and not self.leaving:
            message = self.queue.popleft()
            self.since = time.monotonic()
            self.display.show_message(message.text)
            self.bus.emit(UserInput(new_id("message"), message.text, message.attachments))
        self._settle()

    def _settle(self) -> None:
        if self.busy or self.queue:
            self._idle = anyio.Event() if self._idle.is_set() else self._idle
        else:
            self._idle.set()
        self.line.redraw()

    def _interrupt(self, reason: str) -> None:
        self.bus.emit(Interrupt(reason))

    def _show_error(self, error: ForgeError) -> None:
        self.display.show(f"{error}")
