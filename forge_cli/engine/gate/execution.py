"""Performed, the fourth step of a call: third-party code at work, within its time, so that it cannot hold the gate.

The only module of the gate that sets time limits to the code of tools: for a call, and for what is asked before it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio
from msgspec import Struct, field

from forge_cli.core import bounds
from forge_cli.core.context import executing
from forge_cli.core.errors import ToolInterrupted
from forge_cli.core.tool import TIME_LIMIT, Args
from forge_cli.engine import gate

if TYPE_CHECKING:
    from forge_cli.core.trial import CommandTried
    from forge_cli.engine.gate.guard import Guard, Requested
    from forge_cli.engine.gate.judge import Judged

T = TypeVar("T")
TOOL = "the tool "
_GRACE = bounds.CANCEL_GRACE + 1.0
"""Seconds after its limit until a call that holds the event loop ends the process: by then it would be abandoned."""


class CallClock(Struct):
    """The time of one call; without a limit of its own there is the usual one, and child workers do not count in it."""

    timeout: float | None
    delegating: int = 0
    section: bounds.Section | None = None
    inside: list[anyio.CancelScope] = field(default_factory=list)
    """Those of inner calls, which may run in other tasks than the tool, where it calls them from a thread."""
    over: bool = False
    """Is the call being stopped?"""
    kept: Any = None
    """The value that the tool gave back when it was stopped, such as the output of a command until then."""
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


class Consented(Struct, frozen=True):
    """A call that may be performed."""

    judged: Judged
    stamp: str | None = None
    """That of the preview which was approved; None where nothing was shown."""
    tried: CommandTried | None = None
    """The result of that preview on a copy, for a call that only has to be applied."""


class Performed(Struct, frozen=True):
    """How an execution ended: with a value, with an exception, or late, so that it was stopped."""

    value: Any = None
    error: BaseException | None = None
    late: bool = False


async def perform(what: str, clock: CallClock, function: Callable[[], Awaitable[Any]]) -> Performed:
    """Await third-party code in a task of its own, so that an exception stays there.

    Late, or when this task is cancelled, it is cancelled and has a moment to end; then it is abandoned.
    """
    section = clock.section = bounds.begin(what, clock.limit, grace=_GRACE)
    work = asyncio.create_task(_contain(function))
    try:
        while not work.done() and (left := clock.left()):
            await asyncio.wait({work}, timeout=min(left, TIME_LIMIT))
        late = not work.done()
        if late:
            await _stop(work, clock)
    except asyncio.CancelledError:
        await _stop(work, clock)
        clock.kept = _kept(_result(work))
        raise
    finally:
        bounds.end(section)
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


async def perform_tool(guard: Guard, requested: Requested, consented: Consented, clock: CallClock) -> Performed:
    """Let a tool do its work; one that takes no context gets none, and nothing is loaded for it."""
    judged, context = consented.judged, cast(Any, None)
    execute, args = judged.tool.execute, deepcopy(judged.args)
    if getattr(execute, "takes_context", True):
        context = gate.contexts.context_of(guard, judged, requested, consented.stamp)
    with executing(judged.call.id):
        return await perform(f"{TOOL}{judged.call.name}", clock, lambda: execute(args, context))


def consult(what: str, function: Callable[..., T], args: Args, *more: Any) -> T:
    """Ask code of a tool about a call, before or after it; it gets a copy of the args."""
    return bounds.call_within(bounds.CALL_LIMIT, what, function, deepcopy(args), *more)


async def perform_within(seconds: float, what: str, function: Callable[[], Awaitable[Any]]) -> Any:
    """Return or raise what third-party code does; OutOfTime when it is late, whether or not it lets go."""
    done = await perform(what, CallClock(seconds), function)
    if done.late:
        raise bounds.OutOfTime(what, seconds)
    if isinstance(done.error, Exception):
        raise done.error
    if done.error:
        raise bounds.OwnExit(done.error) from done.error
    return done.value


async def _contain(function: Callable[[], Awaitable[Any]]) -> Performed:
    try:
        return Performed(await function())
    except BaseException as error:  # third-party code: even what would end the event loop is a result
        return Performed(error=error)


async def _stop(work: asyncio.Task[Performed], clock: CallClock) -> None:
    """Cancel and wait for a moment; for child workers and inner calls, which are bounded, until they have ended."""
    clock.stop()
    work.cancel()
    until, cancelled = time.monotonic() + bounds.CANCEL_GRACE, None
    with anyio.CancelScope(shield=True):
        while not work.done() and (clock.delegating or time.monotonic() < until):
            try:
                await asyncio.wait({work}, timeout=bounds.CANCEL_GRACE)
            except asyncio.CancelledError as error:
                cancelled = error
    if not work.done():
        bounds.abandon_task(work)
    if cancelled:
        raise cancelled
