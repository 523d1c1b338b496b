"""Work beside the caller: calls that a person makes by hand, and tasks whose events are read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Self

import anyio

from forge_cli.core.bounds import SHUTDOWN_GRACE
from forge_cli.core.bus import EventBus
from forge_cli.core.calls import ToolCall
from forge_cli.core.events import Event, StatusEvent
from forge_cli.core.wire import error_text
from forge_cli.engine.gate.steps import Caller
from forge_cli.engine.turns.loop import Loop
from forge_cli.record.places import SessionLost


class CallsByHand:
    """The calls that a person makes while a runtime is open; closing cancels them."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus
        self._calls = set[asyncio.Task[object]]()
        self._commands = set[asyncio.Task[object]]()
        """The command lines among the calls, which the model gets to read."""

    def start(self, call: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
        task = asyncio.ensure_future(call)
        self._calls.add(task)
        task.add_done_callback(self._end)
        return task

    def start_command(self, call: ToolCall, loop: Callable[[], Loop]) -> None:
        """Run a command line of the person, which ``loop`` reports to the model later."""

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
        """Wait until all calls have ended."""
        if self._calls:
            await asyncio.wait(self._calls)

    async def wait_for_commands(self) -> None:
        """Wait until the command lines have ended, because the next message reports them."""
        if self._commands:
            await asyncio.wait(self._commands)

    async def aclose(self) -> None:
        """Cancel the calls that have not ended."""
        for task in self._calls:
            task.cancel()
        with anyio.move_on_after(SHUTDOWN_GRACE, shield=True):
            await self.wait()


class EventStream:
    """The events of work that starts with the first one that is read; closing interrupts it."""

    def __init__(
        self,
        bus: EventBus,
        work: Callable[[], Coroutine[Any, Any, object]],
        interrupt: Callable[[str], None],
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
        self._events.put_nowait(None)  # for readers that ask once more after the end
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
        """Interrupt the work if it is still running."""
        task = self._task
        if task is None or task.done():
            return
        self._interrupt("its events are no longer read")
        with anyio.move_on_after(SHUTDOWN_GRACE, shield=True):
            # the grace period is for tools that are being stopped; then the work is cancelled
            await asyncio.wait([task])
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
