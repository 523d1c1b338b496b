"""A conversation: what people say, call and command arrives as events on the bus, and is done in order."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from forge_cli.core.bus import EventBus
from forge_cli.core.errors import ToolError
from forge_cli.core.events import CommandEvent, Event, ManualToolInvoke, StatusEvent, UserInput
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.core.text import did_you_mean
from forge_cli.engine.runtime.result import WorkerResult

Said = UserInput | CommandEvent


class Conversation:
    """Takes ``userInput``, ``command`` and ``manualToolInvoke`` from a bus, until a command ``exit`` or ``close``.

    Input that answers no open question is a task. Tasks and commands wait for one another; a tool that a person calls
    does not wait. ``interrupt`` stops the task at hand, and the next one begins afresh.
    """

    def __init__(
        self,
        bus: EventBus,
        interrupt: InterruptSignal,
        *,
        run: Callable[[str], Awaitable[WorkerResult]],
        call: Callable[[str, Mapping[str, Any]], Coroutine[Any, Any, object]],
        clear: Callable[[], None],
        fill: Callable[[str, Sequence[str]], Awaitable[str | None]],
    ) -> None:
        """``fill`` gives the message of a prompt, by its name and what was typed after it."""
        self._bus = bus
        self._interrupt = interrupt
        self._run = run
        self._call = call
        self._fill = fill
        self._commands: dict[str, Callable[[], None]] = {"clear": clear, "exit": self.close}
        self._send: MemoryObjectSendStream[Said]
        self._received: MemoryObjectReceiveStream[Said]
        self._send, self._received = anyio.create_memory_object_stream[Said](math.inf)

    def close(self) -> None:
        """Take nothing more; what was said before is still done."""
        self._send.close()

    async def go(self) -> WorkerResult | None:
        """Converse; returns the result of the last task."""
        result = None
        async with anyio.create_task_group() as calls:
            unsubscribe = self._bus.subscribe(lambda event: self._hear(event, calls))
            try:
                async for said in self._received:
                    match said:
                        case UserInput(content=task):
                            result = await self._work(task)
                        case CommandEvent(name=name) if name in self._commands:
                            self._commands[name]()
                        case CommandEvent():
                            result = await self._send_prompt(said) or result
            finally:
                unsubscribe()
        return result

    def _hear(self, event: Event, calls: TaskGroup) -> None:
        match event:
            case UserInput() if not self._bus.is_open(event.request_id) and event.content.strip():
                self._take(event)
            case CommandEvent():
                self._take(event)
            case ManualToolInvoke(tool_call_id=None):
                calls.start_soon(self._call, event.tool_name, event.args)

    def _take(self, event: Said) -> None:
        try:
            self._send.send_nowait(event)
        except anyio.ClosedResourceError:
            self._bus.emit(StatusEvent("warning", "the conversation has ended; this was not taken up"))

    async def _work(self, task: str) -> WorkerResult:
        self._interrupt.reset()
        result = await self._run(task)
        if result.error and not result.success:
            self._bus.emit(StatusEvent("error", result.error))
        return result

    async def _send_prompt(self, said: CommandEvent) -> WorkerResult | None:
        """Show the message of a prompt, and work on it like any other; None where nothing was sent."""
        try:
            task = await self._fill(said.name, said.args)
        except ToolError as error:
            self._bus.emit(StatusEvent("error", str(error)))
            return None
        if task is None:
            hint = did_you_mean(said.name, self._commands)
            self._bus.emit(StatusEvent("warning", f"there is no command '{said.name}'; {hint}"))
            return None
        self._bus.emit(StatusEvent("info", f"/{said.name} says: {task}"))
        return await self._work(task)
