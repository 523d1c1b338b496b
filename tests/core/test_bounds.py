"""Time limits for third-party code."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import anyio
import pytest

from forge_cli.core import bounds
from forge_cli.core.bounds import (
    ForcedEnd,
    OwnExit,
    begin,
    begin_shutdown,
    call_within,
    fault_text,
    find_forced_end,
    wait_within,
)
from forge_cli.core.errors import ExitCode

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(bounds, "RUNNING", {})
    return


async def test_wait_within_keeps_open_what_the_function_opened() -> None:
    scope = anyio.CancelScope()

    async def enter() -> None:
        scope.__enter__()

    await wait_within(5, "it", enter)
    assert not scope.__exit__(None, None, None)


async def test_timeout_raised_by_the_function_is_not_replaced() -> None:
    async def fail() -> None:
        raise TimeoutError("upstream")

    with pytest.raises(TimeoutError, match="upstream"):
        await wait_within(5, "it", fail)


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError()])
async def test_unrequested_exit_of_third_party_code_is_an_error(error: BaseException) -> None:
    def fail() -> None:
        raise error

    async def fail_later() -> None:
        raise error

    with pytest.raises(OwnExit, match=type(error).__name__) as caught:
        call_within(5, "it", fail)
    assert fault_text(caught.value).startswith(type(error).__name__)
    with pytest.raises(OwnExit, match=type(error).__name__):
        await wait_within(5, "it", fail_later)


async def test_swallowed_cancellation_is_raised_again() -> None:
    async def swallow() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(30)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await wait_within(5, "it", swallow)
    with pytest.raises(TimeoutError), anyio.fail_after(0.01):
        await wait_within(5, "it", swallow)


def test_late_code_is_named_with_its_limit() -> None:
    begin("the tool slow", 60)
    assert find_forced_end() is None
    begin("tools.py: its import", -1, exit_code=ExitCode.INVALID)
    fault = "tools.py: its import did not end within -1 seconds"
    assert find_forced_end() == ForcedEnd(
        ExitCode.INVALID, late="tools.py: its import", fault=fault
    )


def test_shutdown_names_the_code_that_began_last() -> None:
    begin("the tool delegate", 60)
    begin("the tool inner", 60)
    begin_shutdown("terminated", ExitCode.TERMINATED, 0.0)
    fault = "the tool inner did not end, and was abandoned"
    assert find_forced_end() == ForcedEnd(
        ExitCode.TERMINATED, "terminated", "the tool inner", fault
    )
