"""Performed, the fourth step of a call: third-party code at work, within its time, so that it cannot hold the gate.

The only module of the gate that sets time limits to the code of tools: for a call, and for what is asked before it.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from copy import deepcopy
from functools import partial
from typing import Any, TypeVar, cast

import anyio

from forge_cli.core import bounds
from forge_cli.core.context import ToolContext, executing
from forge_cli.core.errors import ToolInterrupted
from forge_cli.core.tool import TIME_LIMIT, Args
from forge_cli.engine.gate.steps import GRACE, CallClock, Judged, Performed
from forge_cli.schema.tool_fields import is_async

T = TypeVar("T")
TOOL = "the tool "


async def perform(what: str, clock: CallClock, function: Callable[[], Awaitable[Any]]) -> Performed:
    """Await third-party code in a task of its own, so that an exception stays there.

    Late, or when this task is cancelled, it is cancelled and has a moment to end; then it is abandoned.
    """
    section = clock.section = bounds.begin(what, clock.limit, grace=GRACE)
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
    return (
        Performed(error=asyncio.CancelledError())
        if not work.done() or work.cancelled()
        else work.result()
    )


def _kept(performed: Performed) -> Any:
    """The value that a stopped tool still gave back."""
    return (
        performed.error.value if isinstance(performed.error, ToolInterrupted) else performed.value
    )


async def perform_tool(
    judged: Judged, make_context: Callable[[], ToolContext], clock: CallClock
) -> Performed:
    """Let a tool do its work; for one that takes no context, none is made."""
    execute, args = judged.tool.execute, deepcopy(judged.args)
    context = make_context() if getattr(execute, "takes_context", True) else cast(Any, None)
    with executing(judged.call.id):
        return await perform(f"{TOOL}{judged.call.name}", clock, lambda: execute(args, context))


def consult(what: str, function: Callable[..., T], args: Args, *more: Any) -> T:
    """Ask code of a tool about a call, before or after it; it gets a copy of the args."""
    return bounds.call_within(bounds.CALL_LIMIT, what, function, deepcopy(args), *more)


async def ask(
    what: str, function: Callable[..., Any], args: Args, *more: Any, code: Any = None
) -> Any:
    """The same for code that may take long: what is not forge's own, or calls ``code`` that is not, is in a thread."""
    call = partial(function, deepcopy(args), *more)
    said = (
        call()
        if bounds.is_of_forge(code or function) or is_async(function)
        else bounds.run_in_thread(call)
    )

    async def answer() -> Any:
        found = await said
        return await found if inspect.isawaitable(found) else found

    return (
        await perform_within(bounds.CALL_LIMIT, what, answer) if inspect.isawaitable(said) else said
    )


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
    except (
        BaseException
    ) as error:  # third-party code: even what would end the event loop is a result
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
