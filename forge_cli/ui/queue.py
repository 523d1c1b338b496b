"""A queue of the messages that a person sends to a worker, which works on one at a time."""

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
"""The prefix of ids of calls that a person makes."""


class TypedMessage(Struct, frozen=True):
    """A message to the worker, or a command for the session."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    command: CommandEvent | None = None


class MessageQueue:
    """A queue of messages to a worker, for any UI; it talks to the worker by bus events only.

    The runner of the worker calls ``began`` and ``ended``. Messages typed meanwhile wait here, so
    that a UI can leave or take one back without the worker.
    """

    def __init__(self, bus: EventBus, signal: InterruptSignal) -> None:
        self.bus = bus
        self.queue: deque[TypedMessage] = deque()
        """Waiting messages and commands, in the order in which they were typed."""
        self.since: float | None = None
        """The monotonic time at which the current message was sent; None if there is none."""
        self.exit_reason: str | None = None
        """The reason of a forced end; None if the person left."""
        self.leaving = False
        self._signal = signal
        self._calls = 0
        self._commands = 0
        self._exit_sent = False
        self._idle = anyio.Event()
        self._idle.set()

    @property
    def busy(self) -> bool:
        """Return True if an interrupt would stop something."""
        return self.since is not None or self._calls > 0

    def leave(self) -> None:
        """End the conversation: interrupt the running work and drop waiting messages."""
        self.leaving = True
        self.queue.clear()
        if self.busy:
            self.interrupt(self.exit_reason or "interrupted")
        if not self._exit_sent:
            self.bus.emit(CommandEvent("exit"))

    def stop(self, reason: str) -> None:
        """End the conversation because of a signal or a hang-up."""
        self.exit_reason = reason
        self.leave()

    def note(self, event: Event) -> None:
        """Update the queue from an event of the bus."""
        match event:
            case CommandEvent(name="exit"):
                self._exit_sent = True
            case ManualToolInvoke(tool_call_id=None):
                if not self.busy:
                    self._signal.reset()  # an earlier interrupt must not stop this call
                self._calls += 1
                self._settle()
            case ToolResult(tool_call_id=call) if call.startswith(MANUAL) and event.origin is None:
                if self._calls and not event.parent_call_id:  # calls within a call were not counted
                    self._calls -= 1
                    self._settle()
            case _:
                pass

    def began(self) -> None:
        """Note that the worker has begun a message."""
        self.since = self.since or time.monotonic()
        self._settle()

    def ended(self, status: ResultStatus) -> None:
        """Note that the worker has finished a message; the next one is sent soon."""
        self.since = None
        # Soon, so that everything about this message is shown before the next one.
        asyncio.get_running_loop().call_soon(self._send_next)

    def command_began(self) -> None:
        """Note that a command was sent; until ``command_ended``, the conversation is not idle."""
        self._commands += 1
        self._settle()

    def command_ended(self) -> None:
        """Note that a command was carried out."""
        self._commands -= 1
        self._settle()

    async def wait_until_idle(self) -> None:
        """Wait until nothing runs and no message waits."""
        await self._idle.wait()

    def send(self, message: TypedMessage) -> None:
        """Send a message to the worker, now or after its current work."""
        self.queue.append(message)
        self._send_next()

    def take_back(self) -> TypedMessage | None:
        """Remove and return the last waiting message."""
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
        if self.busy or self.queue or self._commands:
            if self._idle.is_set():  # an anyio.Event cannot be cleared
                self._idle = anyio.Event()
        else:
            self._idle.set()
        self._on_change()

    def _on_send(self, message: TypedMessage) -> None:
        """Show a message when it is sent; for subclasses."""

    def _on_change(self) -> None:
        """Redraw the queue; for subclasses."""
