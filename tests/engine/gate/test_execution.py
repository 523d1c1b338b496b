"""One execution of a tool that misuses its task."""

import asyncio
import threading
from typing import Any

import anyio
import pytest

from forge_cli import Tool
from forge_cli.core import bounds
from forge_cli.engine.gate import steps
from forge_cli.engine.gate.execution import perform
from forge_cli.engine.gate.steps import CallClock
from tests.engine.conftest import OpenGate

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "CANCEL_GRACE", 0.1)
    monkeypatch.setattr(bounds, "ABANDONED", [])


class Deaf:
    """Lets go only when the test does."""

    def __init__(self) -> None:
        self.over = asyncio.Event()

    async def __call__(self) -> str:
        while not self.over.is_set():
            try:
                await self.over.wait()
            except BaseException:
                continue
        return "at last"


def tool_of(function: Any, **options: Any) -> Tool:
    return Tool.from_function(function, name="act", needs_approval=False, **options)


async def test_tool_that_ignores_its_timeout_is_abandoned(gate: OpenGate) -> None:
    deaf = Deaf()

    async def act() -> str:
        return await deaf()

    with anyio.fail_after(60):
        outcome = await gate(tool_of(act, timeout=0.3))("act")
    assert (outcome.status, outcome.error) == ("timeout", "act was stopped after 0.3 seconds")
    (left,) = bounds.ABANDONED
    deaf.over.set()
    await left


async def test_tool_that_ignores_an_interrupt_is_abandoned(gate: OpenGate) -> None:
    deaf, started = Deaf(), anyio.Event()

    async def act() -> str:
        started.set()
        return await deaf()

    opened = gate(tool_of(act))
    outcomes = []

    async def work() -> None:
        outcomes.append(await opened("act"))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            await started.wait()
            opened.interrupt.interrupt()
    assert [outcome.status for outcome in outcomes] == ["interrupted"]
    deaf.over.set()
    await bounds.ABANDONED[0]


async def test_check_that_never_returns_asks_and_blocks_nothing(
    gate: OpenGate, monkeypatch
) -> None:
    """Neither the event loop nor the process waits for code that is not async."""
    monkeypatch.setattr(bounds, "CALL_LIMIT", 0.05)
    over = threading.Event()

    def held(*_: object) -> bool:
        return over.wait(60)

    def act() -> str:
        return "done"

    with anyio.fail_after(30):
        try:
            checked = await gate(Tool.from_function(act, needs_approval=held))("act")
            assert (checked.status, over.is_set()) == ("denied", False)
            touching = await gate(tool_of(act, touches=held))("act")
            late = "act does not say which paths it touches: the tool act did not end within 0.05 seconds"
            assert (touching.status, touching.error) == ("error", late)
        finally:
            over.set()


async def test_default_limit_applies_to_tools_without_their_own(
    gate: OpenGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "TIME_LIMIT", 0.02)

    async def act() -> None:
        await anyio.sleep_forever()

    outcome = await gate(tool_of(act))("act")
    assert (outcome.status, outcome.error) == ("timeout", "act was stopped after 0.02 seconds")


@pytest.mark.parametrize(("timeout", "late"), [(None, False), (0.02, True)])
async def test_child_workers_count_in_a_separate_limit(
    monkeypatch: pytest.MonkeyPatch, timeout: float | None, late: bool
) -> None:
    monkeypatch.setattr(steps, "TIME_LIMIT", 0.02)
    clock = CallClock(timeout)

    async def act() -> str:
        with clock.pause():
            await anyio.sleep(0.1)
        return "done"

    done = await perform("it", clock, act)
    assert (done.late, done.value) == (late, None if late else "done")
