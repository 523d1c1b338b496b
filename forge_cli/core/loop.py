"""Into the event loop: the only place where it is started."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

T = TypeVar("T")


def start_loop(
    function: Callable[..., Awaitable[T]], *args: object, factory: Callable[[], AbstractEventLoop] | None = None
) -> T:
    """Run an async function to its end, in a loop that ``factory`` makes."""
    return anyio.run(function, *args, backend_options={"loop_factory": factory})
