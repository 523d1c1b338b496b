"""The child processes of a worker, of which nothing is loaded before a toolset or a hook asks for them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from forge_cli import sandbox

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from forge_cli.sandbox.isolation.worker import WorkerProcesses

    OpenProcesses = Callable[[type[WorkerProcesses], asyncio.TaskGroup], WorkerProcesses]


class LateProcesses:
    """Calling it gives the processes; leaving its context ends those that were started."""

    def __init__(self, make: OpenProcesses) -> None:
        self._make = make
        self._tasks = asyncio.TaskGroup()
        self._made: WorkerProcesses | None = None

    def __call__(self) -> WorkerProcesses:
        self._made = self._made or self._make(sandbox.isolation.worker.WorkerProcesses, self._tasks)
        return self._made

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._made is not None:
            await self._made.children.aclose()
        if isinstance(error, asyncio.CancelledError):
            await self._tasks.__aexit__(kind, error, trace)
        else:  # an error of the body is not one of the tasks: it is raised as it is instead of in a group
            await self._tasks.__aexit__(None, None, None)
