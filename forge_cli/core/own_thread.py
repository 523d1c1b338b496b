"""A thread for libraries that are bound to one: what is called there runs one after the other, in order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
Job = Callable[[], None]


class OwnThread:
    """Begins with the first call; a daemon, so that a call which never ends does not hold the process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._started = False

    async def run(self, function: Callable[..., T], *args: Any, **more: Any) -> T:
        """Call a function in the thread; one that is cancelled meanwhile ends there all the same, and others wait."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        call = partial(copy_context().run, partial(function, *args, **more))
        if not self._started:
            self._started = True
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        self._jobs.put(lambda: _perform(call, loop, done))
        return await done

    def stop(self) -> None:
        """Let the thread end after what it was given so far."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


def _perform(call: Callable[[], T], loop: asyncio.AbstractEventLoop, done: asyncio.Future[T]) -> None:
    error: BaseException | None = None
    value: Any = None
    try:
        value = call()
    except StopIteration as stop:  # which no future takes
        error = RuntimeError(f"StopIteration: {stop}")
    except BaseException as raised:  # third-party code: whatever it raises is the result of its call
        error = raised
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(_settle, done, value, error)


def _settle(done: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(value)
    else:
        done.set_exception(error)
