"""A task that owns what it opens closes it, too."""

import asyncio
from contextlib import AsyncExitStack

import anyio
import pytest

from forge_cli.engine.runtime.reopening import Owner

pytestmark = pytest.mark.anyio
DEADLINE = 60


async def test_what_was_opened_later_may_be_closed_first_or_last() -> None:
    order: list[str] = []

    def owner(name: str) -> Owner[str]:
        async def enter(stack: AsyncExitStack) -> str:
            await stack.enter_async_context(anyio.create_task_group())
            stack.callback(order.append, f"close {name}")
            return name

        return Owner(enter)

    with anyio.fail_after(DEADLINE):
        first, second = owner("first"), owner("second")
        assert [await first.open(), await second.open()] == ["first", "second"]
        await first.close()
        await second.close()
    assert order == ["close first", "close second"]


async def test_what_cannot_be_opened_is_raised_and_closed() -> None:
    closed: list[str] = []

    async def enter(stack: AsyncExitStack) -> None:
        stack.callback(closed.append, "closed")
        raise ValueError("broken")

    with anyio.fail_after(DEADLINE), pytest.raises(ValueError, match="broken"):
        await Owner(enter).open()
    assert closed == ["closed"]


async def test_whoever_no_longer_waits_leaves_nothing_open() -> None:
    closed: list[str] = []

    async def enter(stack: AsyncExitStack) -> None:
        stack.callback(closed.append, "closed")
        await asyncio.sleep(DEADLINE * 10)

    with anyio.fail_after(DEADLINE), anyio.move_on_after(0.01):
        await Owner(enter).open()
    assert closed == ["closed"]
