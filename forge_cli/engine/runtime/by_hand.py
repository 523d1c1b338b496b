"""Calls that people make on the bus, beside whatever the worker does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import anyio

from forge_cli.core.bounds import SHUTDOWN_GRACE
from forge_cli.core.bus import EventBus
from forge_cli.core.calls import ToolCall
from forge_cli.core.events import StatusEvent
from forge_cli.core.wire import error_text
from forge_cli.engine.gate.judge import Caller
from forge_cli.engine.turns.loop import Loop
from forge_cli.record.log import SessionLost


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
