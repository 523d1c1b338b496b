"""Time limits of requests, paused while the server waits for an answer from us."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import anyio


class Callback(Protocol):
    """A function that answers a request of a server."""

    async def __call__(self, context: Any, params: Any) -> Any: ...


class RequestLimits:
    """The time limits of all pending requests."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._limits: set[anyio.CancelScope] = set()
        self._left: dict[anyio.CancelScope, float] = {}
        """The remaining seconds of each request while the limits are paused."""
        self._answering = 0

    @contextmanager
    def started(self) -> Iterator[None]:
        """Limit the time of a request; raise TimeoutError when it is over."""
        with anyio.fail_after(self._seconds) as limit:
            self._limits.add(limit)
            try:
                yield
            finally:
                self._limits.discard(limit)

    def stopped(self, answer: Callback | None) -> Callback | None:
        """Wrap an answer to a server so that the limits are paused while it is made."""
        if answer is None:
            return None

        async def wait(context: Any, params: Any) -> Any:
            # Only the first of several answers: the limits are paused already for the others.
            if not self._answering:
                self._left = {
                    limit: limit.deadline - anyio.current_time() for limit in self._limits
                }
            self._answering += 1
            for limit in self._left:
                limit.deadline = math.inf
            try:
                return await answer(context, params)
            finally:
                self._answering -= 1
                if not self._answering:
                    for limit, seconds in self._left.items():
                        limit.deadline = anyio.current_time() + seconds

        return wait
