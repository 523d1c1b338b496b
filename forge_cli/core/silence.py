"""A limit for streams that stay open and bring nothing: a server may send signs of life for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


class Patience:
    """The seconds in which something useful must come; what the listener takes its time for does not count."""

    def __init__(self, seconds: float) -> None:
        self.seconds = self.left = seconds

    def renew(self) -> None:
        """Something useful has come."""
        self.left = self.seconds

    async def wait(self, item: Awaitable[T]) -> T:
        """A TimeoutError where it does not come in time."""
        since = time.monotonic()
        async with asyncio.timeout(self.left):
            found = await item
        self.left -= time.monotonic() - since
        return found


async def until_silent(items: AsyncIterator[T], seconds: float, useful: Callable[[T], bool]) -> AsyncGenerator[T]:
    """The items of a stream; a TimeoutError once none that is ``useful`` has come for so many seconds."""
    patience = Patience(seconds)
    while True:
        try:
            item = await patience.wait(anext(items))
        except StopAsyncIteration:
            return
        if useful(item):
            patience.renew()
        yield item
