"""Time limits for third-party code, where there is a watchdog and where there is none."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable

import anyio
import pytest

from forge_cli.core.bounds import OutOfTime, Watchdog, call_within, fault_text, is_fault, wait_within, watchdog

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def never(why: str, holding: str | None) -> int:
    raise AssertionError(f"{why} {holding}")


def sleep() -> None:
    time.sleep(60)


def spin() -> None:
    while True:
        pass


def match() -> None:
    re.match("^(a+)+$", "a" * 60 + "!")


def swallow_once() -> None:
    try:
        time.sleep(60)
    except BaseException:
        time.sleep(60)


@pytest.mark.parametrize("blocking", [sleep, spin, match, swallow_once])
async def test_a_function_that_blocks_is_stopped_where_it_stands(blocking: Callable[[], None]) -> None:
    with Watchdog(never), pytest.raises(OutOfTime) as caught:
        call_within(0.1, "it", blocking)
    assert str(caught.value) == "it did not end within 0.1 seconds"
    assert watchdog() is None


async def test_an_inner_limit_is_the_inner_ones_and_an_outer_one_the_outer_ones() -> None:
    def inner(seconds: float) -> str:
        try:
            call_within(seconds, "inner", sleep)
        except OutOfTime as error:
            return str(error)
        return ""

    with Watchdog(never):
        assert call_within(30, "outer", inner, 0.1) == "inner did not end within 0.1 seconds"


async def test_code_of_an_async_function_that_blocks() -> None:
    async def block() -> None:
        await anyio.lowlevel.checkpoint()
        sleep()

    with Watchdog(never), pytest.raises(OutOfTime):
        await wait_within(0.1, "it", block)


async def forever() -> None:
    await asyncio.Event().wait()


async def test_an_async_function_needs_no_watchdog() -> None:
    with pytest.raises(OutOfTime):
        await wait_within(0.01, "it", forever)


async def test_what_an_async_function_opens_stays_open() -> None:
    scope = anyio.CancelScope()

    async def enter() -> None:
        scope.__enter__()

    await wait_within(5, "it", enter)
    assert not scope.__exit__(None, None, None)


async def test_a_time_out_of_its_own_stays_its_own() -> None:
    async def fail() -> None:
        raise TimeoutError("upstream")

    with pytest.raises(TimeoutError, match="upstream"):
        await wait_within(5, "it", fail)


async def test_values_and_errors_come_through() -> None:
    async def give(value: int) -> int:
        return value

    functions: list[Callable[..., Awaitable[int]]] = [give]
    with Watchdog(never):
        assert call_within(5, "it", str, 7) == "7"
        assert [await wait_within(5, "it", function, 7) for function in functions] == [7]
        with pytest.raises(ValueError, match="invalid literal"):
            call_within(5, "it", int, "x")


async def test_a_fault_is_what_nobody_asked_for() -> None:
    assert all(is_fault(error) for error in (ValueError(), SystemExit(), GeneratorExit(), asyncio.CancelledError()))
    assert not is_fault(KeyboardInterrupt())
    with Watchdog(never) as dog:
        assert is_fault(KeyboardInterrupt())
        dog.hurry("interrupted", signalled=True)
        assert not is_fault(KeyboardInterrupt())
        dog.calm()
    with anyio.CancelScope() as scope:
        scope.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await anyio.lowlevel.checkpoint()
        assert not is_fault(caught.value)


def test_the_sentence_of_a_fault() -> None:
    assert fault_text(ValueError("no")) == "ValueError: no"
    assert fault_text(OutOfTime("tools()", 10)) == "tools() did not end within 10 seconds"
