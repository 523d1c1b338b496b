"""Performed, the fourth step of a call: running third-party code within its time limit.

No other module of the gate sets time limits for the code of tools: for calls, and for questions
before them.
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
from forge_cli.engine.gate.steps import GRACE, CallClock, Consented, Performed
from forge_cli.schema.tool_fields import is_async

T = TypeVar("T")
TOOL = "the tool "


async def perform(what: str, clock: CallClock, function: Callable[[], Awaitable[Any]]) -> Performed:
    """Run third-party code in a task of its own and return its value or exception.

    When its time is over, or this task is cancelled, the code is cancelled, gets a moment to end,
    and is then abandoned.
    """
    section = clock.section = bounds.begin(what, clock.limit, grace=GRACE)
    work = asyncio.create_task(_contain(function))
    try:
        # ``left`` is infinite while a child worker runs, and finite again later, so look regularly.
        while not work.done() and (left := clock.left()):
            await asyncio.wait({work}, timeout=min(left, TIME_LIMIT))
        late = not work.done()
        if late:
            await _stop(work, clock)
    except asyncio.CancelledError:
        await _stop(work, clock)
        clock.partial_value = _partial_value(_result(work))
        raise
    finally:
        bounds.end(section)
    performed = _result(work)
    # A tool that ended by itself in its last moment keeps that value or error.
    if late and isinstance(performed.error, asyncio.CancelledError | ToolInterrupted):
        clock.partial_value = _partial_value(performed)
        return Performed(late=True)
    return performed


def _result(work: asyncio.Task[Performed]) -> Performed:
    """Return the result of a task that has ended or was abandoned."""
    if not work.done() or work.cancelled():
        return Performed(error=asyncio.CancelledError())
    return work.result()


def _partial_value(performed: Performed) -> Any:
    """Return the value that a stopped tool still returned."""
    if isinstance(performed.error, ToolInterrupted):
        return performed.error.value
    return performed.value


async def perform_tool(
    consented: Consented, make_context: Callable[[], ToolContext], clock: CallClock
) -> Performed:
    """Run a tool, or apply what its trial showed; no context is made for a tool that takes none."""
    judged, tried = consented.judged, consented.for_apply
    execute = judged.tool.execute
    # A copy, so that the tool cannot change what is recorded.
    args = deepcopy(judged.args)
    context = cast(ToolContext, None)
    if getattr(execute, "takes_context", True) or tried is not None:
        context = make_context()
    work: Callable[[], Awaitable[Any]] = partial(execute, args, context)
    if tried is not None and judged.tool.apply is not None:
        work = partial(judged.tool.apply, args, context, tried)
    with executing(judged.call.id):
        return await perform(f"{TOOL}{judged.call.name}", clock, work)


def consult(what: str, function: Callable[..., T], args: Args, *more: Any) -> T:
    """Run a short function of a tool, before or after a call, with a copy of the args."""
    return bounds.call_within(bounds.CALL_LIMIT, what, function, deepcopy(args), *more)


async def ask(
    what: str, function: Callable[..., Any], args: Args, *more: Any, code: Any = None
) -> Any:
    """Run a function of a tool that may take long, with a copy of the args.

    It runs in a thread unless it is forge's own and calls no third-party ``code``.
    """
    call = partial(function, deepcopy(args), *more)
    if bounds.is_of_forge(code or function) or is_async(function):
        given = call()
    else:
        given = bounds.run_in_thread(call)
    if not inspect.isawaitable(given):
        return given

    async def answer() -> Any:
        found = await given
        return await found if inspect.isawaitable(found) else found

    return await perform_within(bounds.CALL_LIMIT, what, answer)


async def perform_within(seconds: float, what: str, function: Callable[[], Awaitable[Any]]) -> Any:
    """Run third-party code and return its value; raise OutOfTime when its time is over."""
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
    ) as error:  # third-party code: even SystemExit is a result, or the loop would end
        return Performed(error=error)


async def _stop(work: asyncio.Task[Performed], clock: CallClock) -> None:
    """Cancel the code and wait a moment.

    Wait for child workers and inner calls until they have ended.
    """
    clock.stop()
    work.cancel()
    until = time.monotonic() + bounds.CANCEL_GRACE
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not work.done() and (clock.delegating or time.monotonic() < until):
            try:
                await asyncio.wait({work}, timeout=bounds.CANCEL_GRACE)
            except asyncio.CancelledError as error:
                # Raised at the end, or a second cancellation would leave the tool running.
                cancelled = error
    if not work.done():
        bounds.abandon_task(work)
    if cancelled:
        raise cancelled
