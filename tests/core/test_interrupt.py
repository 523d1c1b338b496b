"""The signal that stops a turn, from wherever it comes and whenever."""

import anyio
import pytest
from anyio import to_thread

from forge_cli.core.interrupt import InterruptSignal

pytestmark = pytest.mark.anyio


async def stopped(signal: InterruptSignal) -> bool:
    """Wait for ever inside the scope; did the signal end it?"""
    with anyio.fail_after(60), signal.scope() as scope:
        await anyio.sleep_forever()
    return scope.cancelled_caught


async def test_earlier_signal_ends_the_scope_at_once_with_its_first_reason() -> None:
    signal = InterruptSignal()
    signal.interrupt("no time")
    signal.interrupt("enough")
    assert (await stopped(signal), signal.reason) == (True, "no time")


async def test_signal_can_be_used_again_after_a_reset() -> None:
    signal = InterruptSignal()
    signal.interrupt()
    signal.reset()
    assert not signal.interrupted
    with signal.scope() as scope:
        await anyio.lowlevel.checkpoint()
    assert not scope.cancelled_caught
    signal.interrupt("again")
    assert await stopped(signal)


async def test_signal_may_come_from_another_thread() -> None:
    signal = InterruptSignal()

    async def from_elsewhere() -> None:
        await anyio.wait_all_tasks_blocked()
        await to_thread.run_sync(signal.interrupt)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(from_elsewhere)
        assert await stopped(signal)


async def test_every_scope_ends_on_a_signal() -> None:
    signal = InterruptSignal()
    ended: list[bool] = []

    async def wait() -> None:
        ended.append(await stopped(signal))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        signal.interrupt()
    assert ended == [True, True, True]
