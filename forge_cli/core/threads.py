"""Threads for what is not async: one that a library is bound to, or one of a pool, which has one for every call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from anyio.lowlevel import EventLoopToken, current_token

try:
    from anyio._core._eventloop import set_current_async_library, threadlocals
except ImportError:  # another anyio may have no such names, and take only its own threads for its own
    threadlocals = None  # type: ignore[assignment]

T = TypeVar("T")

IDLE = 10.0
"""Seconds after which a thread of the pool ends that has nothing to do."""


_last_token: EventLoopToken | None = None


def _token_of(loop: asyncio.AbstractEventLoop) -> EventLoopToken:
    """What anyio knows the running loop by; most often it is the loop that a thread worked for last."""
    global _last_token
    token = _last_token
    if token is None or token.native_token is not loop:
        token = _last_token = current_token()
    return token


class _Job:
    """A call in another thread, in the context of whoever waits for its end."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._loop = asyncio.get_running_loop()
        self._context, self._token = copy_context(), _token_of(self._loop)
        self.done: asyncio.Future[Any] = self._loop.create_future()

    def perform(self) -> None:
        value: Any = None
        error: BaseException | None = None
        try:
            value = self._context.run(self._call)
        except StopIteration as stop:  # which no future takes
            error = RuntimeError(f"StopIteration: {stop}")
        except BaseException as raised:  # third-party code: whatever it raises is the result of its call
            error = raised
        WORKING.discard(self)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._settle, value, error)

    def _call(self) -> Any:
        """Call it in a thread that ``anyio.from_thread`` takes for one of anyio's, for which there is no public way."""
        if threadlocals is not None:
            threadlocals.current_token, threadlocals.current_cancel_scope = self._token, None
            set_current_async_library(None)
        return self._function()

    def _settle(self, value: Any, error: BaseException | None) -> None:
        if self.done.done():
            return
        if error is None:
            self.done.set_result(value)
        else:
            self.done.set_exception(error)


class OwnThread:
    """Begins with the first call; a daemon, so that a call which never ends does not hold the process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._started = False

    async def run(self, function: Callable[..., T], *args: Any, **more: Any) -> T:
        """Call a function in the thread; one that is cancelled meanwhile ends there all the same, and others wait."""
        job = _Job(partial(function, *args, **more))
        if not self._started:
            self._started = True
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        self._jobs.put(job)
        result: T = await job.done
        return result

    def stop(self) -> None:
        """Let the thread end after what it was given so far."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.perform()


WORKING: set[_Job] = set()
"""What the threads of the pool are doing; with something that does not end, a process cannot be left as usual."""
_jobs: SimpleQueue[_Job] = SimpleQueue()
_free: list[None] = []
"""An item for each thread of the pool that waits for work and was not given any."""


def start_in_thread(function: Callable[[], T]) -> asyncio.Future[T]:
    """Call a function in a thread of the pool; where nobody waits for it any more, it is left behind."""
    job = _Job(function)
    WORKING.add(job)
    _jobs.put(job)
    try:
        _free.pop()
    except IndexError:
        threading.Thread(target=_work, name="forge pool", daemon=True).start()
    return job.done


def _work() -> None:
    while True:
        try:
            job = _jobs.get(timeout=IDLE)
        except Empty:
            with suppress(IndexError):  # there is work for it now
                _free.pop()
                return
        else:
            job.perform()
            del job
            _free.append(None)
