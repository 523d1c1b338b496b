"""A conversation: what people say, command and call by hand arrives as events on the bus, and is done in order."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from forge_cli.core.actions import CommandEvent, UserInput
from forge_cli.core.bounds import SHUTDOWN_GRACE
from forge_cli.core.bus import EventBus
from forge_cli.core.calls import ToolCall
from forge_cli.core.events import Event, StatusEvent
from forge_cli.core.messages import Attachment
from forge_cli.core.wire import error_text
from forge_cli.engine import runtime as parts
from forge_cli.engine.gate.steps import Caller
from forge_cli.engine.runtime.result import WorkerResult
from forge_cli.engine.turns.loop import Loop
from forge_cli.record.places import SessionLost

if TYPE_CHECKING:
    from forge_cli.engine.runtime.runtime import WorkerRuntime

_ATTACHED = "Look at the attached files."
"""The task where somebody sends files without a word."""
Said = UserInput | CommandEvent


class ConversationHooks(TypedDict, total=False):
    """Functions that hear how a conversation goes."""

    on_begin: Callable[[], object]
    """A task is taken up."""
    on_end: Callable[[WorkerResult | None], object]
    """It has ended; without a result where it raised."""
    on_done: Callable[[Said, WorkerResult | None], object]
    """Gets what was dealt with, and how that ended where it was work for the model."""


class Conversation:
    """Takes ``userInput`` and ``command`` from a bus, until it is closed.

    Input that answers no open question is a task. Tasks and commands wait for one another. ``interrupt`` stops the task
    at hand, and the next one begins afresh.
    """

    def __init__(self, session: WorkerRuntime, **told: Unpack[ConversationHooks]) -> None:
        self._session, self._bus, self._told = session, session.bus, told
        self.commands = parts.commands.SessionCommands(session, self.close)
        self._naming = anyio.CancelScope()
        self._send: MemoryObjectSendStream[Said]
        self._received: MemoryObjectReceiveStream[Said]
        self._send, self._received = anyio.create_memory_object_stream[Said](math.inf)

    def close(self) -> None:
        """Take nothing more; what was said before is still done."""
        self._send.close()

    async def go(self, *, resume: bool = False) -> WorkerResult | None:
        """Converse; returns the result of the last task. With ``resume`` what was left undone is done first."""
        result = None
        async with anyio.create_task_group() as beside:
            unsubscribe = self._bus.subscribe(self._hear, only=(UserInput, CommandEvent))
            try:
                if resume:
                    result = await self._do("", ())
                async for said in self._received:
                    done = None
                    match said:
                        case UserInput():
                            done = await self._work(said)
                            if result is None and done.status == "completed":
                                beside.start_soon(self._name_session)
                        case CommandEvent():
                            if message := await self.commands.handle_command(said):
                                done = await self._work(message)
                    result = done or result
                    if on_done := self._told.get("on_done"):
                        on_done(said, done)
            finally:
                unsubscribe()
                self._naming.cancel()
        return result

    async def _name_session(self) -> None:
        """Beside the conversation, which does not wait for a title when it ends."""
        with self._naming:
            await self.commands.find_title()

    def _hear(self, event: Event) -> None:
        match event:
            case UserInput() if self._bus.is_open(event.request_id):
                pass
            case UserInput() if event.content.strip() or event.attachments:
                self._take(event)
            case CommandEvent() if not self.commands.obey_at_once(event):
                self._take(event)

    def _take(self, event: Said) -> None:
        try:
            self._send.send_nowait(event)
        except anyio.ClosedResourceError:
            self._bus.emit(StatusEvent("warning", "the conversation has ended; this was not taken up"))

    async def _work(self, said: UserInput) -> WorkerResult:
        self._session.interrupt_signal.reset()
        result = await self._do(said.content if said.content.strip() else _ATTACHED, said.attachments)
        if result.error and not result.success:
            self._bus.emit(StatusEvent("error", result.error))
        elif result.status == "completed" and not result.response and result.output is None:
            self._bus.emit(StatusEvent("warning", "the answer of the model is empty"))
        return result

    async def _do(self, task: str, attachments: Sequence[Attachment]) -> WorkerResult:
        if on_begin := self._told.get("on_begin"):
            on_begin()
        result = None
        try:
            await self.commands.notice_edits()
            result = await self._session.run(task, attachments)
            await self._session.offer_tools()
        finally:
            if on_end := self._told.get("on_end"):
                on_end(result)
        return result


class CallsByHand:
    """Those of one runtime, which ends them when it is closed."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus
        self._calls = set[asyncio.Task[object]]()
        self._commands = set[asyncio.Task[object]]()
        """Those of which the model is told."""

    def start(self, call: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
        task = asyncio.ensure_future(call)
        self._calls.add(task)
        task.add_done_callback(self._end)
        return task

    def start_command(self, call: ToolCall, loop: Callable[[], Loop]) -> None:
        """Run a command line that the person typed; ``loop`` tells the model of it with the next message."""

        async def run() -> None:
            outcome = await loop().guard.call(call, Caller.PERSON, own_command=True)
            if outcome.status in ("success", "error", "timeout", "interrupted"):
                loop().commands.append(outcome)

        self._commands.add(self.start(run()))

    def _end(self, task: asyncio.Task[object]) -> None:
        self._calls.discard(task)
        self._commands.discard(task)
        if not task.cancelled() and (error := task.exception()):
            with suppress(SessionLost):
                self._bus.emit(StatusEvent("error", error_text(error)))

    async def wait(self) -> None:
        """Wait until all have ended."""
        if self._calls:
            await asyncio.wait(self._calls)

    async def wait_for_commands(self) -> None:
        """Wait until those have ended that the next message tells of."""
        if self._commands:
            await asyncio.wait(self._commands)

    async def aclose(self) -> None:
        """Cancel what has not ended."""
        for task in self._calls:
            task.cancel()
        with anyio.move_on_after(SHUTDOWN_GRACE, shield=True):
            await self.wait()


class EventStream:
    """Starts the work with the first event that is asked for; ``aclose``, or closing the runtime, ends it."""

    def __init__(
        self, bus: EventBus, work: Callable[[], Coroutine[Any, Any, object]], interrupt: Callable[[str], None]
    ) -> None:
        self._bus = bus
        self._work = work
        self._interrupt = interrupt
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._task: asyncio.Task[object] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if self._task is None:
            self._task = self._start()
        event = await self._events.get()
        if event is not None:
            return event
        self._events.put_nowait(None)
        await self._task
        raise StopAsyncIteration

    def _start(self) -> asyncio.Task[object]:
        unsubscribe = self._bus.subscribe(self._events.put_nowait)

        def end(task: asyncio.Task[object]) -> None:
            unsubscribe()
            self._events.put_nowait(None)

        task = asyncio.ensure_future(self._work())
        task.add_done_callback(end)
        return task

    async def aclose(self) -> None:
        """End the work, if it is still running, as an interrupt does."""
        task = self._task
        if task is None or task.done():
            return
        self._interrupt("its events are no longer read")
        with anyio.move_on_after(SHUTDOWN_GRACE, shield=True):
            await asyncio.wait([task])
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
