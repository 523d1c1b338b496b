"""A dedicated thread for a library whose calls must all come from the same thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from forge_cli.core.bounds import run_in_thread

T = TypeVar("T")

_CHECK_INTERVAL = 1.0
"""Seconds after which an idle thread checks that its event loop still exists."""


class OwnThread:
    """A thread that starts with its first call and runs all calls one after the other."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._server: asyncio.Task[None] | None = None

    async def run(self, function: Callable[..., T], *args: Any, **more: Any) -> T:
        """Call a function in the thread.

        A call that is cancelled meanwhile still runs to its end, and later calls wait for it.
        """
        if self._server is None:
            serve = partial(self._serve, asyncio.get_running_loop())
            self._server = asyncio.create_task(run_in_thread(serve))
        return await run_in_thread(self._hand_over, partial(function, *args, **more))

    def stop(self) -> None:
        """Let the thread end after the calls that it has so far."""
        self._calls.put(None)

    def _hand_over(self, function: Callable[[], T]) -> T:
        """Call the function in the thread with the context of the caller."""
        done = Future[T]()
        context = copy_context()

        def call() -> None:
            try:
                done.set_result(context.run(function))
            except BaseException as error:  # third-party code: raised again in the caller
                done.set_exception(error)

        self._calls.put(call)
        return done.result()

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        thread = threading.current_thread()
        before = thread.name
        thread.name = self._name
        while not loop.is_closed():
            try:
                call = self._calls.get(timeout=_CHECK_INTERVAL)
            except Empty:
                continue
            if call is None:
                break
            call()
        thread.name = before
