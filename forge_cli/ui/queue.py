"""Messages that a person sends to a worker: one is worked on at a time, and the others wait here for their turn."""

from __future__ import annotations

import asyncio
import time
from collections import deque

import anyio
from msgspec import Struct

from forge_cli.core.actions import CommandEvent, Interrupt, ManualToolInvoke, UserInput
from forge_cli.core.bus import EventBus, new_id
from forge_cli.core.events import Event, ToolResult
from forge_cli.core.interrupt import InterruptSignal, ResultStatus
from forge_cli.core.messages import Attachment

MANUAL = "manual_"
"""How the ids of calls begin that a person makes."""


class TypedMessage(Struct, frozen=True):
    """A message of a person to the worker, or a line that is a command for the session."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    command: CommandEvent | None = None


class MessageQueue:
    """Messages of a person to a worker, whichever UI they use; the worker is reached by events on the bus only.

    ``began`` and ``ended`` are called by the runner of the worker. Messages that are typed while one is worked on wait
    here, so that leaving or taking one back does not need the worker.
    """

    def __init__(self, bus: EventBus, signal: InterruptSignal) -> None:
        self.bus = bus
        self.queue: deque[TypedMessage] = deque()
        """Messages and commands that wait for the message before them, in the order in which they were typed."""
        self.since: float | None = None
        """The time at which the message at hand was sent, by the monotonic clock."""
        self.exit_reason: str | None = None
        """Why it ended, where that was not the person's wish to leave in peace."""
        self.leaving = False
        self._signal = signal
        self._calls = 0
        self._exit_sent = False
        self._idle = anyio.Event()
        self._idle.set()

    @property
    def busy(self) -> bool:
        """Is there something that an interrupt would stop?"""
        return self.since is not None or self._calls > 0

    def leave(self) -> None:
        """End the conversation: what runs is interrupted, and what waits is not taken up."""
        self.leaving = True
        self.queue.clear()
        if self.busy:
            self.interrupt(self.exit_reason or "interrupted")
        if not self._exit_sent:
            self.bus.emit(CommandEvent("exit"))

    def stop(self, reason: str) -> None:
        """A signal wants the process to end."""
        self.exit_reason = reason
        self.leave()

    def note(self, event: Event) -> None:
        """Every event of the bus comes by here."""
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
        asyncio.get_running_loop().call_soon(self._send_next)

    async def wait_until_idle(self) -> None:
        """Return when nothing is worked on and nothing waits."""
        await self._idle.wait()

    def send(self, message: TypedMessage) -> None:
        """Say something to the worker, now or after what it works on."""
        self.queue.append(message)
        self._send_next()

    def take_back(self) -> TypedMessage | None:
        """The last message that waits, which is not sent then."""
        message = self.queue.pop() if self.queue else None
        self._settle()
        return message

    def interrupt(self, reason: str = "interrupted") -> None:
        self.bus.emit(Interrupt(reason))

    def _send_next(self) -> None:
        while self.since is None and self.queue and not self.leaving:
            message = self.queue.popleft()
            if message.command:
                self.bus.emit(message.command)
                continue
            self.since = time.monotonic()
            self._on_send(message)
            self.bus.emit(UserInput(new_id("message"), message.text, message.attachments))
        self._settle()

    def _settle(self) -> None:
        if self.busy or self.queue:
            self._idle = anyio.Event() if self._idle.is_set() else self._idle
        else:
            self._idle.set()
        self._on_change()

    def _on_send(self, message: TypedMessage) -> None:
        """A message is taken up, so it can be shown."""

    def _on_change(self) -> None:
        """Something has changed that is always shown."""
