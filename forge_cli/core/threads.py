"""Threads for what is not async: one that a library is bound to, or one of a pool, which has one for every call."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from anyio.lowlevel import current_token

try:
    from anyio._core._eventloop import set_current_async_library, threadlocals
except ImportError:  # another anyio may have no such names, and take only its own threads for its own
    threadlocals = None  # type: ignore[assignment]

from forge_cli.core.upkeep import end_forked

T = TypeVar("T")

IDLE = 10.0
"""Seconds after which a thread of the pool ends that has nothing to do."""


class _Home:
    """The event loop that threads work for; it is woken once for all that they have done until it looks."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop, self.token = loop, current_token()
        self._check: Callable[[], None] | None = getattr(loop, "check_descriptors", None)
        self._ended: deque[Callable[[], None]] = deque()
        self._told = False

    def bring(self, settle: Callable[[], None]) -> None:
        """Have the end of a call settled there."""
        self._ended.append(settle)
        if not self._told:
            self._told = True
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self.loop.call_soon_threadsafe(self._settle)
        elif self._check:  # what was called here may have closed what wakes the loop
            self._check()

    def _settle(self) -> None:
        self._told = False  # before it looks: what comes later tells again
        while self._ended:
            self._ended.popleft()()


_last_home: _Home | None = None


def _home() -> _Home:
    """The running loop; most often it is the one that a thread worked for last."""
    global _last_home
    home, loop = _last_home, asyncio.get_running_loop()
    if home is None or home.loop is not loop:
        home = _last_home = _Home(loop)
    return home


class _Job:
    """A call in another thread, in the context of whoever waits for its end."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._context, self._home = copy_context(), _home()
        self.done: asyncio.Future[Any] = self._home.loop.create_future()

    def perform(self) -> None:
        value: Any = None
        error: BaseException | None = None
        try:
            value = self._context.run(self._call)
        except StopIteration as stop:  # which no future takes
            error = RuntimeError(f"StopIteration: {stop}")
        except BaseException as raised:  # third-party code: whatever it raises is the result of its call
            error = raised
        end_forked()
        WORKING.discard(self)
        self._home.bring(partial(self._settle, value, error))

    def _call(self) -> Any:
        """Call it in a thread that ``anyio.from_thread`` takes for one of anyio's, for which there is no public way."""
        if threadlocals is not None:
            threadlocals.current_token, threadlocals.current_cancel_scope = self._home.token, None
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
