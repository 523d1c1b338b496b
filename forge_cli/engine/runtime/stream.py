"""The events of one task, as they come: for programs that read them in a loop of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Self

import anyio

from forge_cli.core.bounds import SHUTDOWN_GRACE
from forge_cli.core.bus import EventBus
from forge_cli.core.events import Event


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
