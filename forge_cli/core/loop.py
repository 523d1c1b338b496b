"""Into the event loop: the only place where it is started."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from forge_cli.core.bounds import CANCEL_GRACE, abandon_task

T = TypeVar("T")


def start_loop(function: Callable[..., Awaitable[T]], *args: object) -> T:
    """Run an async function to its end.

    At its end asyncio cancels the tasks that are left, and waits for them and for threads, for ever: after a grace
    the loop is stopped.
    """
    results: list[T] = []
    errors: list[BaseException] = []
    stopped = False

    async def work() -> None:
        try:
            results.append(await function(*args))
        except BaseException as error:
            errors.append(error)
            raise
        finally:
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                abandon_task(task)
            asyncio.get_running_loop().call_later(CANCEL_GRACE, stop, asyncio.get_running_loop())

    def stop(loop: asyncio.AbstractEventLoop) -> None:
        nonlocal stopped
        stopped = True
        loop.stop()

    try:
        anyio.run(work)
    except RuntimeError:
        if not stopped:
            raise
        if errors:
            raise errors[0] from None
    return results[0]
