"""One execution of a tool: in a task or a thread, and within its time, so that nothing it does can hold the gate."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from forge_cli.core.bounds import CANCEL_GRACE, OutOfTime, OwnExit, Section, abandon_task, begin, call_within, end
from forge_cli.core.errors import ToolInterrupted
from forge_cli.core.tool import TIME_LIMIT

if TYPE_CHECKING:
    from forge_cli.core.calls import Denial, ToolCall
    from forge_cli.engine.gate.judge import AnyCaller

TOOL = "the tool "
_GRACE = CANCEL_GRACE + 1.0
"""Seconds after its limit until a call that holds the event loop ends the process: by then it would be abandoned."""
MOST_AT_ONCE = 0.01
"""Seconds for which calls may follow each other without a turn of the event loop."""


@dataclass
class CallClock:
    """The time of one call; without a limit of its own there is the usual one, and child workers do not count in it."""

    timeout: float | None
    delegating: int = 0
    section: Section | None = None
    inside: list[anyio.CancelScope] = field(default_factory=list)
    """Those of inner calls, which may run in other tasks than the tool, where it calls them from a thread."""
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
        if self.section and self.delegating:
            self.section.due = math.inf
        for scope in self.inside:
            scope.cancel()

    def _tell(self) -> None:
        if self.section:
            self.section.due = time.monotonic() + self.left() + _GRACE


@dataclass
class CallUnderway:
    """A call between its start and its outcome, with what came of the calls that its tool makes itself."""

    call: ToolCall
    caller: AnyCaller
    clock: CallClock | None = None
    """Its time, once it runs."""
    made: int = 0
    """How many calls its tool has made."""
    denials: list[Denial] = field(default_factory=list)
    """What was refused of them."""


@dataclass(frozen=True)
class Performed:
    """How an execution ended: with a value, with whatever was raised, or late."""

    value: Any = None
    error: BaseException | None = None
    late: bool = False


async def perform(what: str, clock: CallClock, function: Callable[[], Awaitable[Any]]) -> Performed:
    """Await third-party code in a task of its own, so that whatever it raises stays there.

    Late, or when this task is cancelled, it is cancelled and has a moment to end; then it is abandoned.
    """
    section = clock.section = begin(what, clock.limit, grace=_GRACE)
    work = asyncio.create_task(_contain(function))
    try:
        while not work.done() and (left := clock.left()):
            await _wait(work, min(left, TIME_LIMIT))
        late = not work.done()
        if late:
            await _stop(work, clock)
    except asyncio.CancelledError:
        await _stop(work, clock)
        clock.kept = _kept(_result(work))
        raise
    finally:
        end(section)
    performed = _result(work)
    if late and isinstance(performed.error, asyncio.CancelledError | ToolInterrupted):
        clock.kept = _kept(performed)
        return Performed(late=True)
    return performed


def _result(work: asyncio.Task[Performed]) -> Performed:
    """How a task ended that has ended, or was abandoned."""
    return Performed(error=asyncio.CancelledError()) if not work.done() or work.cancelled() else work.result()


def _kept(performed: Performed) -> Any:
    """The value that a stopped tool still gave back."""
    return performed.error.value if isinstance(performed.error, ToolInterrupted) else performed.value


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
    except BaseException as error:  # third-party code: whatever it raises is a result
        return Performed(error=error)
    return None if value is None else Performed(value)


async def perform_within(seconds: float, what: str, function: Callable[[], Awaitable[Any]]) -> Any:
    """What third-party code returns, or raises; OutOfTime when it is late, whether or not it lets go."""
    done = await perform(what, CallClock(seconds), function)
    if done.late:
        raise OutOfTime(what, seconds)
    if isinstance(done.error, Exception):
        raise done.error
    if done.error:
        raise OwnExit(done.error) from done.error
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


async def _contain(function: Callable[[], Awaitable[Any]]) -> Performed:
    try:
        return Performed(await function())
    except BaseException as error:  # third-party code: even what would end the event loop is a result
        return Performed(error=error)


async def _stop(work: asyncio.Task[Performed], clock: CallClock) -> None:
    """Cancel and wait for a moment; for child workers and inner calls, which are bounded, until they have ended."""
    clock.stop()
    work.cancel()
    until, cancelled = time.monotonic() + CANCEL_GRACE, None
    with anyio.CancelScope(shield=True):
        while not work.done() and (clock.delegating or time.monotonic() < until):
            try:
                await asyncio.wait({work}, timeout=CANCEL_GRACE)
            except asyncio.CancelledError as error:
                cancelled = error
    if not work.done():
        abandon_task(work)
    if cancelled:
        raise cancelled
