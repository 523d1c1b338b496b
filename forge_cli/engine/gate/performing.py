"""One execution of a tool: in a task or a thread, and within its time, so that nothing it does can hold the gate."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from typing import Any

import anyio

from forge_cli.core.bounds import (
    LETTING_GO,
    OutOfTime,
    Overdue,
    Section,
    begin,
    call_within,
    end,
    forget_task,
    is_cancelled,
    is_fault,
    run_section,
    shrug_off_cancel,
)
from forge_cli.core.errors import ToolInterrupted
from forge_cli.core.threads import start_in_thread
from forge_cli.core.tool import TIME_LIMIT
from forge_cli.core.upkeep import mend_process
from forge_cli.core.values import dataclass

TOOL = "the tool "
MOST_AT_ONCE = 0.01
"""Seconds for which calls may follow each other without a turn of the event loop."""


@dataclass
class CallClock:
    """The time of one call; without a limit of its own there is the usual one, and child workers do not count in it."""

    timeout: float | None
    delegating: int = 0
    section: Section | None = None
    inside: list[anyio.CancelScope] = field(default_factory=list)
    """Those of inner calls, for which a cancelled task alone could be the tool's own doing."""
    over: bool = False
    """Is the call being stopped?"""
    kept: Any = None
    """What the tool gave back when it was stopped, such as the output of a command until then."""
    _away: float = 0.0
    _began: float = field(default_factory=time.monotonic)

    @property
    def limit(self) -> float:
        return TIME_LIMIT if self.timeout is None else self.timeout

    def left(self) -> float:
        if self.delegating and self.timeout is None:
            return math.inf
        return max(0.0, self._began + self._away + self.limit - time.monotonic())

    @contextmanager
    def pause(self) -> Iterator[None]:
        """While a child worker works, or an inner call."""
        since, self.delegating = time.monotonic(), self.delegating + 1
        self._tell()
        try:
            yield
        finally:
            self.delegating -= 1
            if self.timeout is None and not self.delegating:
                self._away += time.monotonic() - since
            self._tell()

    def stop(self) -> None:
        """Let the call start nothing more, and end what it has started."""
        self.over = True
        for scope in self.inside:
            scope.cancel()

    def _tell(self) -> None:
        if self.section:
            self.section.due = time.monotonic() + self.left()


@dataclass(frozen=True)
class Performed:
    """How an execution ended: with a value, with whatever was raised, or late."""

    value: Any = None
    error: BaseException | None = None
    late: bool = False


async def perform(what: str, clock: CallClock, function: Callable[[], Awaitable[Any]]) -> Performed:
    """Await third-party code in a task of its own: its cancelling, raising and blocking stay there.

    Late, or when this task is cancelled, it is cancelled and has a moment to let go; then it is left behind.
    """
    section = clock.section = begin(what, clock.limit)
    return await _await_end(section, clock, asyncio.create_task(_contain(section, function)))


async def perform_in_thread(what: str, clock: CallClock, function: Callable[[], Any]) -> Performed:
    """Call third-party code in a thread; late, or when this task is cancelled, it is left behind there."""
    section = clock.section = begin(what, clock.limit)
    work = start_in_thread(partial(_contain_call, function))
    try:
        return await _await_end(section, clock, work)
    finally:
        if work.cancelled():  # its thread has not come to that
            mend_process()


async def _await_end(section: Section, clock: CallClock, work: asyncio.Future[Performed]) -> Performed:
    cancelled: asyncio.CancelledError | None = None
    try:
        while not work.done() and not cancelled and (left := clock.left()) != 0:
            try:
                await _wait(work, min(left, TIME_LIMIT))
            except asyncio.CancelledError as error:
                if is_cancelled():
                    cancelled = error
                else:
                    shrug_off_cancel()
        late = not work.done() and not cancelled
        if not work.done():
            await _let_go(work, clock)
    finally:
        end(section)
    left_behind = work.cancelled() or not work.done()
    performed = Performed(error=asyncio.CancelledError()) if left_behind else work.result()
    if isinstance(performed.error, ToolInterrupted):
        clock.kept = performed.error.value
    stopped = isinstance(performed.error, asyncio.CancelledError | Overdue | ToolInterrupted)
    if cancelled and stopped:
        raise cancelled
    return Performed(late=True) if stopped and (late or isinstance(performed.error, Overdue)) else performed


class LoopTurns:
    """Sees to it that the event loop has its turns where calls end without waiting for anything."""

    def __init__(self) -> None:
        self._last = -math.inf

    async def give_way(self) -> None:
        now = time.monotonic()
        if now > self._last + MOST_AT_ONCE:
            self._last = now
            await asyncio.sleep(0)


def perform_at_once(what: str, clock: CallClock, function: Callable[[], Any]) -> Performed | None:
    """Call third-party code that need not wait; None where it says that it has to."""
    try:
        value = call_within(clock.limit, what, function)
    except OutOfTime:
        return Performed(late=True)
    except BaseException as error:  # third-party code: whatever it raises is a result
        if not is_fault(error):
            raise
        return Performed(error=error)
    return None if value is None else Performed(value)


async def perform_within(seconds: float, what: str, function: Callable[[], Awaitable[Any]]) -> Any:
    """What third-party code returns, or raises; OutOfTime when it is late, whether or not it lets go."""
    done = await perform(what, CallClock(seconds), function)
    if done.late:
        raise OutOfTime(what, seconds)
    if done.error:
        raise done.error
    return done.value


async def _wait(work: asyncio.Future[Any], seconds: float) -> None:
    """Wait for the end of some work, no longer than that; ``asyncio.wait`` for it costs three times as much."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()

    def release(_: object = None) -> None:
        if not over.done():
            over.set_result(None)

    timer = loop.call_later(seconds, release)
    work.add_done_callback(release)
    try:
        await over
    finally:
        timer.cancel()
        work.remove_done_callback(release)


async def _contain(section: Section, function: Callable[[], Awaitable[Any]]) -> Performed:
    try:
        return Performed(await run_section(section, function))
    except BaseException as error:  # third-party code: even what would end the event loop is a result
        return Performed(error=error)


def _contain_call(function: Callable[[], Any]) -> Performed:
    try:
        return Performed(function())
    except BaseException as error:  # third-party code: whatever it raises is a result
        return Performed(error=error)
    finally:
        mend_process()


async def _let_go(work: asyncio.Future[Performed], clock: CallClock) -> None:
    """Cancel and wait for a moment; for child workers and inner calls, which are bounded, until they have ended."""
    clock.stop()
    work.cancel()
    until = time.monotonic() + LETTING_GO
    with anyio.CancelScope(shield=True):
        while not work.done() and (clock.delegating or time.monotonic() < until):
            try:
                await asyncio.wait({work}, timeout=LETTING_GO)
            except asyncio.CancelledError:
                shrug_off_cancel()
    if isinstance(work, asyncio.Task) and not work.done():
        forget_task(work)
