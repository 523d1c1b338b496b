"""The contexts that tools are given besides their args, where they ask for them, and the calls that tools make."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from anyio import from_thread
from anyio.lowlevel import EventLoopToken, current_token

from forge_cli.core.calls import Denial, ToolCall, ToolOutcome
from forge_cli.core.context import Delegation, ToolContext
from forge_cli.core.errors import ToolError
from forge_cli.core.events import StatusEvent, ToolOutput
from forge_cli.core.interrupt import Parked
from forge_cli.core.phrases import NO_ONE_TO_ANSWER
from forge_cli.core.wire import JsonObject, jsonable
from forge_cli.engine.gate.steps import CallClock, CallingTool, Judged, Requested
from forge_cli.schema.input_schema import InputSchema

if TYPE_CHECKING:
    from pydantic import BaseModel

    from forge_cli.core.bus import EventBus
    from forge_cli.engine.gate.guard import Guard

DEEPEST = 3
"""How many tools may stand above an inner call."""


def context_of(
    guard: Guard, judged: Judged, requested: Requested | None = None, stamp: str | None = None
) -> ToolContext:
    """The context of a call; without ``requested`` it is that of a preview. Made in the thread of the event loop."""
    call, clock = judged.call, requested.clock if requested else None
    return ToolContext(
        call_id=call.id,
        tool=judged.tool.name,
        worker=guard.judge.worker,
        workspace=guard.judge.workspace,
        sandbox=guard.judge.sandbox.view(judged.places, changes=requested is not None),
        interrupt=guard.interrupt,
        paths=judged.paths,
        stamp=stamp,
        basis=judged.verdict.basis,
        report=partial(_progress, guard.bus, call.id, threading.get_ident(), current_token()),
        show=lambda text: guard.bus.emit(ToolOutput(call.id, text)),
        delegation=partial(_delegate, guard, call, clock or CallClock(math.inf)) if guard.delegate else None,
        inner=ToolCalls(requested, guard) if requested else None,
        questions=partial(_ask, guard, call, clock) if clock and guard.ask_person else None,
    )


async def _ask(
    guard: Guard, call: ToolCall, clock: CallClock, question: str, schema: JsonObject | type[BaseModel]
) -> JsonObject | None:
    form = InputSchema.of(schema).json_schema
    if guard.ask_person is None or not (guard.bus.attended or guard.person_elsewhere):
        raise ToolError(f"{call.name} has a question, and {NO_ONE_TO_ANSWER} it: {question}")
    with clock.pause():
        return await guard.ask_person(f"the tool {call.name}", question, form)


async def _delegate(guard: Guard, call: ToolCall, clock: CallClock, task: Delegation) -> str:
    with clock.pause():
        return await guard.delegate(call, task) if guard.delegate else ""


def _progress(
    bus: EventBus, call_id: str, home: int, token: EventLoopToken, message: str, fraction: float | None
) -> None:
    event = StatusEvent("info", str(message), tool_call_id=call_id, progress=fraction)
    if threading.get_ident() == home:
        bus.emit(event)
    else:
        from_thread.run_sync(bus.emit, event, token=token)


class ToolCalls:
    """The inner calls of one call; their ids are its own with a number, so that a replay finds them again."""

    def __init__(self, outer: Requested, guard: Guard) -> None:
        """The clock of ``outer`` stands still meanwhile, as it does for a child worker."""
        self._outer, self._guard = outer, guard

    async def call(self, name: str, args: Mapping[str, Any]) -> ToolOutcome:
        outer, clock = self._outer, self._outer.clock
        if clock is None or clock.over:
            raise ToolError(f"{outer.call.name} is being stopped, so it calls no other tool")
        outer.made += 1
        call = ToolCall(f"{outer.call.id}.{outer.made}", str(name), jsonable(dict(args)), parent=outer.call.id)
        outcome = await self._take_within(call, clock)
        if outcome.status in ("denied", "blocked"):
            outer.denials.append(Denial(outcome.refusal, outcome.by or "rule"))
        outer.denials += outcome.denials
        return outcome

    async def _take_within(self, call: ToolCall, clock: CallClock) -> ToolOutcome:
        """Take the call, unless the outer one is stopped meanwhile.

        It cannot wait on disk, since what its tool has done so far would be lost.
        """
        guard, above = self._guard, self._outer.caller
        root, depth = (above.root, above.depth) if isinstance(above, CallingTool) else (above, 0)
        if depth >= DEEPEST:
            return guard.postpone(call, f"{call.name} was not called: tools call tools {DEEPEST} deep at most")
        with clock.pause(), anyio.CancelScope() as scope:
            clock.inside.append(scope)
            try:
                return await guard.call(call, CallingTool(self._outer.call.name, root, depth + 1))
            except Parked as parked:
                return guard.finish(ToolOutcome.failed(call, "denied", f"{call.name} ended: {parked}", by="headless"))
            except asyncio.CancelledError:
                guard.cut_off(call)
                raise
            finally:
                clock.inside.remove(scope)
        raise asyncio.CancelledError

    def schema(self, name: str) -> JsonObject | None:
        offer = self._guard.judge.offers.get(name)
        return offer.tool.schema.json_schema if offer else None
