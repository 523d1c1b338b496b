"""The contexts that tools are given besides their args, where they ask for them, and the calls that tools make."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import anyio
from anyio import from_thread
from anyio.lowlevel import EventLoopToken, current_token

from forge_cli.core.calls import Denial, ToolCall, ToolOutcome
from forge_cli.core.context import ToolContext
from forge_cli.core.errors import ToolError
from forge_cli.core.events import StatusEvent, ToolOutput
from forge_cli.core.interrupt import Parked
from forge_cli.core.wire import JsonObject, jsonable
from forge_cli.engine.gate.steps import AnyCaller, CallClock, CallingTool, Judged, Requested

if TYPE_CHECKING:
    from forge_cli.core.bus import EventBus
    from forge_cli.core.interrupt import InterruptSignal
    from forge_cli.engine.gate.judge import Judge

DEEPEST = 3
"""How many tools may stand above an inner call."""


def preview_context(
    judge: Judge,
    judged: Judged,
    bus: EventBus,
    interrupt: InterruptSignal,
    *,
    changes: bool = False,
) -> ToolContext:
    """Return the context of a preview, which changes nothing. Made in the thread of the event loop."""
    call = judged.call
    return ToolContext(
        call_id=call.id,
        tool=judged.tool.name,
        worker=judge.worker.name,
        workspace=judge.worker.workspace,
        sandbox=judge.sandbox.view(judged.places, changes=changes),
        interrupt=interrupt,
        paths=judged.paths,
        basis=judged.verdict.basis,
        report=partial(_progress, bus, call.id, threading.get_ident(), current_token()),
        show=lambda text: bus.emit(ToolOutput(call.id, text)),
    )


def _progress(
    bus: EventBus,
    call_id: str,
    home: int,
    token: EventLoopToken,
    message: str,
    fraction: float | None,
) -> None:
    event = StatusEvent("info", str(message), tool_call_id=call_id, progress=fraction)
    if threading.get_ident() == home:
        bus.emit(event)
    else:
        from_thread.run_sync(bus.emit, event, token=token)


class InnerGate(Protocol):
    """The gate as inner calls need it."""

    async def call(self, call: ToolCall, caller: AnyCaller) -> ToolOutcome: ...

    def postpone(self, call: ToolCall, sentence: str) -> ToolOutcome: ...

    def cut_off(self, call: ToolCall) -> ToolOutcome: ...

    def finish(self, outcome: ToolOutcome) -> ToolOutcome: ...

    def schema_of(self, name: str) -> JsonObject | None: ...


class ToolCalls:
    """The inner calls of one call; their ids are its own with a number, so that a replay finds them again."""

    def __init__(self, outer: Requested, gate: InnerGate) -> None:
        """The clock of ``outer`` stands still meanwhile, as it does for a child worker."""
        self._outer = outer
        self._gate = gate

    async def call(self, name: str, args: Mapping[str, Any]) -> ToolOutcome:
        outer, clock = self._outer, self._outer.clock
        if clock is None or clock.over:
            raise ToolError(f"{outer.call.name} is being stopped, so it calls no other tool")
        outer.made += 1
        call = ToolCall(
            f"{outer.call.id}.{outer.made}", str(name), jsonable(dict(args)), parent=outer.call.id
        )
        outcome = await self._take_within(call, clock)
        if outcome.status in ("denied", "blocked"):
            outer.denials.append(Denial(outcome.refusal, outcome.by or "rule"))
        outer.denials += outcome.denials
        return outcome

    async def _take_within(self, call: ToolCall, clock: CallClock) -> ToolOutcome:
        """Take the call, unless the outer one is stopped meanwhile.

        It cannot wait on disk, since what its tool has done so far would be lost.
        """
        gate, above = self._gate, self._outer.caller
        root, depth = (above.root, above.depth) if isinstance(above, CallingTool) else (above, 0)
        if depth >= DEEPEST:
            return gate.postpone(
                call, f"{call.name} was not called: tools call tools {DEEPEST} deep at most"
            )
        with clock.pause(), anyio.CancelScope() as scope:
            clock.inside.append(scope)
            try:
                return await gate.call(call, CallingTool(self._outer.call.name, root, depth + 1))
            except Parked as parked:
                return gate.finish(
                    ToolOutcome.failed(
                        call, "denied", f"{call.name} ended: {parked}", by="headless"
                    )
                )
            except asyncio.CancelledError:
                gate.cut_off(call)
                raise
            finally:
                clock.inside.remove(scope)
        raise asyncio.CancelledError

    def schema(self, name: str) -> JsonObject | None:
        return self._gate.schema_of(name)
