"""The executor ``local``: all items in this process, on one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from forge_cli.core.errors import UsageError
from forge_cli.core.executors import BatchItem, ExecutorEnv, ExecutorFactory, ItemEnd
from forge_cli.core.hookspecs import hookimpl
from forge_cli.core.interrupt import InterruptSignal


class LocalExecutor:
    """Each item is a task of one group."""

    def __init__(self, env: ExecutorEnv, group: TaskGroup) -> None:
        self._env, self._group = env, group
        self._signals: dict[str, InterruptSignal] = {}
        self._ends: asyncio.Queue[ItemEnd] = asyncio.Queue()

    def submit(self, item: BatchItem) -> None:
        self._signals[item.key] = signal = InterruptSignal()
        self._group.start_soon(self._run, item, signal)

    async def _run(self, item: BatchItem, signal: InterruptSignal) -> None:
        end = await self._env.perform(item, signal)
        del self._signals[item.key]
        self._ends.put_nowait(end)

    async def next_end(self) -> ItemEnd:
        return await self._ends.get()

    def cancel(self, reason: str) -> None:
        for signal in list(self._signals.values()):
            signal.interrupt(reason)


@asynccontextmanager
async def make_local(address: str, env: ExecutorEnv) -> AsyncIterator[LocalExecutor]:
    if address:
        raise UsageError(f"--executor local:{address}: the local executor has no address")
    async with anyio.create_task_group() as group:
        yield LocalExecutor(env, group)


@hookimpl
def forge_executors() -> list[ExecutorFactory]:
    return [ExecutorFactory("local", make_local)]
