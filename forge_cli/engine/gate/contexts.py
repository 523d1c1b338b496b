"""The contexts of tools that take one, and the calls that tools make."""

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
from forge_cli.engine.gate.steps import (
    AnyCaller,
    CallClock,
    CallingTool,
    Judged,
    Requested,
)

if TYPE_CHECKING:
    from forge_cli.core.bus import EventBus
    from forge_cli.core.interrupt import InterruptSignal
    from forge_cli.engine.gate.judge import Judge

MAX_DEPTH = 3
"""The most nested calls by tools."""


def preview_context(
    judge: Judge,
    judged: Judged,
    bus: EventBus,
    interrupt: InterruptSignal,
    *,
    changes: bool = False,
) -> ToolContext:
    """Return the context of a preview, which can change nothing.

    Call this in the thread of the event loop.
    """
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
        applied=bus.emit,
    )


def _progress(
    bus: EventBus,
    call_id: str,
    loop_thread: int,
    token: EventLoopToken,
    message: str,
    fraction: float | None,
) -> None:
    event = StatusEvent("info", str(message), tool_call_id=call_id, progress=fraction)
    # The bus belongs to the thread of the event loop, and a preview may run in another one.
    if threading.get_ident() == loop_thread:
        bus.emit(event)
    else:
        from_thread.run_sync(bus.emit, event, token=token)


class InnerGate(Protocol):
    """The part of the gate that inner calls need."""

    async def call(self, call: ToolCall, caller: AnyCaller) -> ToolOutcome: ...

    def postpone(self, call: ToolCall, sentence: str) -> ToolOutcome: ...

    def cut_off(self, call: ToolCall) -> ToolOutcome: ...

    def finish(self, outcome: ToolOutcome) -> ToolOutcome: ...

    def schema_of(self, name: str) -> JsonObject | None: ...


class ToolCalls:
    """The calls that one call makes.

    Their IDs are its own ID with a number, so that a replay finds them again.
    """

    def __init__(self, outer: Requested, gate: InnerGate) -> None:
        """Make the calls of ``outer``, whose clock stops while one of them runs."""
        self._outer = outer
        self._gate = gate

    async def call(self, name: str, args: Mapping[str, Any]) -> ToolOutcome:
        outer, clock = self._outer, self._outer.clock
        if clock is None or clock.over:
            raise ToolError(f"{outer.call.name} is being stopped, so it cannot call other tools")
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
        """Take the call, unless the outer one is stopped in the meantime.

        The call cannot be parked, because the work of the outer tool so far would be lost.
        """
        gate = self._gate
        above = self._outer.caller
        name = self._outer.call.name
        if isinstance(above, CallingTool):
            caller = CallingTool(name, above.root, above.depth + 1)
        else:
            caller = CallingTool(name, above)
        if caller.depth > MAX_DEPTH:
            sentence = (
                f"{call.name} was not called: calls of tools by tools nest {MAX_DEPTH} deep at most"
            )
            return gate.postpone(call, sentence)
        with clock.pause(), anyio.CancelScope() as scope:
            clock.inside.append(scope)
            try:
                return await gate.call(call, caller)
            except Parked as parked:
                sentence = f"{call.name} ended: {parked}"
                return gate.finish(ToolOutcome.failed(call, "denied", sentence, by="headless"))
            except asyncio.CancelledError:
                gate.cut_off(call)
                raise
            finally:
                clock.inside.remove(scope)
        # The scope was cancelled because the outer call ends, and a cancel scope swallows that.
        raise asyncio.CancelledError

    def schema(self, name: str) -> JsonObject | None:
        return self._gate.schema_of(name)
