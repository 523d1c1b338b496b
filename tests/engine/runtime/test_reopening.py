"""A task that owns what it opens closes it, too."""

import asyncio
from contextlib import AsyncExitStack

import anyio
import pytest

from forge_cli.engine.runtime.reopening import Owner

pytestmark = pytest.mark.anyio
DEADLINE = 60


async def test_cancelled_reopening_leaves_nothing_open() -> None:
    closed: list[str] = []

    async def enter(stack: AsyncExitStack) -> None:
        stack.callback(closed.append, "closed")
        await asyncio.sleep(DEADLINE * 10)

    with anyio.fail_after(DEADLINE), anyio.move_on_after(0.01):
        await Owner(enter).open()
    assert closed == ["closed"]
