"""A thread for every call of what is not async."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import anyio

T = TypeVar("T")


async def run_in_thread(function: Callable[..., T], *args: Any, **more: Any) -> T:
    """Call a function in a thread, where ``anyio.from_thread`` works; one that is cancelled is abandoned there.

    Each call has a limiter of its own: it never waits for a thread.
    """

    def call() -> T:
        try:
            return function(*args, **more)
        except StopIteration as error:  # which nobody can raise into a coroutine
            raise RuntimeError(f"StopIteration: {error}").with_traceback(error.__traceback__) from error

    return await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
