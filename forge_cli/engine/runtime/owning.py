"""A task that owns what it opens: it closes that again, whatever the one that asked for it has opened since."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Generic, TypeVar

T = TypeVar("T")


class Owner(Generic[T]):
    """Opens something in a task of its own, where connections and processes must also be closed."""

    def __init__(self, enter: Callable[[AsyncExitStack], Awaitable[T]]) -> None:
        self._enter = enter
        self._over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> T:
        """Open what there is now; an error is raised here, and nothing stays open."""
        opened: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._own(opened))
        try:
            return await asyncio.shield(opened)
        except BaseException:
            self._task.cancel()
            await asyncio.wait([self._task])
            raise

    async def close(self) -> None:
        self._over.set()
        if self._task:
            await self._task

    async def _own(self, opened: asyncio.Future[T]) -> None:
        try:
            async with AsyncExitStack() as stack:
                opened.set_result(await self._enter(stack))
                await self._over.wait()
        except BaseException as error:
            if opened.done():
                raise
            opened.set_exception(error)
