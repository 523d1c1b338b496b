"""A toolbox of llm, made, prepared and called in a single thread, as databases require."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any


class OwnThread:
    """A thread that calls functions one after another."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "llm-toolbox")

    async def call(self, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Return the value of a function, which may be a coroutine function."""
        if inspect.iscoroutinefunction(function):
            return await function(*args, **named)
        return await asyncio.wrap_future(self._pool.submit(partial(function, *args, **named)))

    def close(self) -> None:
        """Accept no more calls; do not wait for a running one."""
        self._pool.shutdown(wait=False, cancel_futures=True)


async def open_toolbox(cls: Any, settings: dict[str, Any], thread: OwnThread) -> list[Any]:
    """Return the tools of a new toolbox, ready to be called."""
    toolbox = await thread.call(cls, **settings)
    await thread.call(toolbox.prepare)
    await toolbox.prepare_async()
    return list(toolbox.tools())


def missing_settings(cls: Any, settings: dict[str, Any]) -> list[str]:
    """Return the names of required arguments that are missing."""
    try:
        parameters = inspect.signature(cls).parameters.values()
    except (TypeError, ValueError):
        return []
    named = [
        each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    ]
    return [each.name for each in named if each.default is each.empty and each.name not in settings]
