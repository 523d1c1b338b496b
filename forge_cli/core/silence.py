"""A limit for streams that stay open and bring nothing: a server may send signs of life for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TypeVar

T = TypeVar("T")


async def until_silent(items: AsyncIterator[T], seconds: float, useful: Callable[[T], bool]) -> AsyncGenerator[T]:
    """The items of a stream; a TimeoutError once none that is ``useful`` has come for so many seconds."""
    left = seconds
    while True:
        since = time.monotonic()
        async with asyncio.timeout(left):
            try:
                item = await anext(items)
            except StopAsyncIteration:
                return
        left = seconds if useful(item) else left - (time.monotonic() - since)
        yield item
