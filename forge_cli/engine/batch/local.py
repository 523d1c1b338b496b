"""The executor ``local``, which runs items in this process, and their request rate."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from forge_cli.core.errors import UsageError
from forge_cli.core.executors import BatchItem, ExecutorEnv, ExecutorFactory, ItemEnd
from forge_cli.core.hookspecs import hookimpl
from forge_cli.core.interrupt import InterruptSignal


class LocalExecutor:
    """Runs each item as a task of one task group."""

    def __init__(self, env: ExecutorEnv, group: TaskGroup) -> None:
        self._env = env
        self._group = group
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
    """Yield an executor in this process; an address is an error."""
    if address:
        raise UsageError(f"--executor local:{address}: the local executor has no address")
    async with anyio.create_task_group() as group:
        yield LocalExecutor(env, group)


@hookimpl
def forge_executors() -> list[ExecutorFactory]:
    """Return the executor ``local``."""
    return [ExecutorFactory("local", make_local)]


class SharedPace:
    """Limits the requests of all items to what the provider allows.

    A refusal halves the number of parallel requests, and each success adds one. The first request
    goes out alone until its answer begins: it puts the prompt into the provider's cache, and if the
    provider refuses it, the others need not ask.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._limit = 1
        self._warm = False
        self._running = 0
        self._not_before = 0.0
        self._waiting: deque[anyio.Event] = deque()
        self.problem = ""
        """The problem of the provider; empty after a request that succeeded."""

    @property
    def limit(self) -> int:
        """The number of requests that may run in parallel now."""
        return self._limit

    @property
    def pause(self) -> float:
        """Seconds until the next request may start."""
        if self._not_before:
            return max(0.0, self._not_before - self._clock())
        return 0.0

    def request(self) -> AbstractAsyncContextManager[None]:
        return self

    async def __aenter__(self) -> None:
        await self._wait_turn()
        self._running += 1
        self._wake()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            if self._warm:
                self._limit = min(self._most, self._limit + 1)
            else:
                self._limit = self._most
            self._warm = True
            self.problem = ""
        self._running -= 1
        self._wake()

    def go_ahead(self) -> None:
        if not self._warm:
            self._limit = self._most
            self._warm = True
            self._wake()

    def tell(self, problem: str) -> None:
        self.problem = problem

    def hold(self, seconds: float) -> None:
        # Requests that ran in parallel are refused together, which counts once.
        if not self.pause:
            self._limit = max(1, min(self._limit, self._running) // 2)
            self._warm = True
        self._not_before = max(self._not_before, self._clock() + seconds)

    async def back_off(self, seconds: float) -> None:
        self.hold(seconds)
        self._running -= 1
        try:
            await self._wait_turn()
        finally:
            self._running += 1
            self._wake()

    async def _wait_turn(self) -> None:
        while (pause := self.pause) or self._running >= self._limit:
            event = anyio.Event()
            self._waiting.append(event)
            try:
                with anyio.move_on_after(pause or None):
                    await event.wait()
            finally:
                # One that was woken and cancelled at the same time passes its turn on.
                if event in self._waiting:
                    self._waiting.remove(event)
                else:
                    self._wake()

    def _wake(self) -> None:
        """Wake as many waiting requests as may start."""
        for _ in range(min(len(self._waiting), self._limit - self._running)):
            self._waiting.popleft().set()
