"""What a tool is given besides its args, where it asks for that: made for one call by the gate that it passes."""

from __future__ import annotations

import math
import threading
from functools import partial
from typing import TYPE_CHECKING

from anyio import from_thread
from anyio.lowlevel import EventLoopToken, current_token

from forge_cli.core.context import Delegation, ToolContext
from forge_cli.core.errors import ToolError
from forge_cli.core.events import StatusEvent, ToolOutput
from forge_cli.engine.gate.inner import ToolCalls
from forge_cli.engine.gate.performing import CallClock, CallUnderway

if TYPE_CHECKING:
    from forge_cli.core.bus import EventBus
    from forge_cli.core.calls import ToolCall
    from forge_cli.core.wire import JsonObject
    from forge_cli.engine.gate.guard import Guard
    from forge_cli.engine.gate.judge import Judged


def context_of(
    guard: Guard, judged: Judged, stamp: str | None, *, changes: bool, underway: CallUnderway | None
) -> ToolContext:
    """The context of a call; without ``underway`` it is that of a preview. Made in the thread of the event loop."""
    call, clock = judged.call, underway.clock if underway else None
    return ToolContext(
        call_id=call.id,
        tool=judged.tool.name,
        worker=guard.judge.worker,
        workspace=guard.judge.workspace,
        sandbox=guard.sandbox.view(judged.places, changes=changes),
        interrupt=guard.interrupt,
        paths=judged.paths,
        stamp=stamp,
        basis=judged.verdict.basis,
        report=partial(_progress, guard.bus, call.id, threading.get_ident(), current_token()),
        show=lambda text: guard.bus.emit(ToolOutput(call.id, text)),
        delegation=partial(_delegate, guard, call, clock or CallClock(math.inf)) if guard.delegate else None,
        inner=ToolCalls(underway, guard.offers, guard.call_inner) if underway else None,
        questions=partial(_ask, guard, call, clock) if clock and guard.ask_person else None,
    )


async def _ask(guard: Guard, call: ToolCall, clock: CallClock, question: str, schema: JsonObject) -> JsonObject | None:
    if not guard.bus.attended or guard.ask_person is None:
        raise ToolError(f"{call.name} has a question, and nobody is there to answer it: {question}")
    with clock.pause():
        return await guard.ask_person(f"the tool {call.name}", question, schema)


async def _delegate(guard: Guard, call: ToolCall, clock: CallClock, task: Delegation) -> str:
    with clock.pause():
        return await guard.delegate(call, task) if guard.delegate else ""


def _progress(
    bus: EventBus, call_id: str, home: int, token: EventLoopToken, message: str, fraction: float | None
) -> None:
    event = StatusEvent("info", message, tool_call_id=call_id, progress=fraction)
    if threading.get_ident() == home:
        bus.emit(event)
    else:
        from_thread.run_sync(bus.emit, event, token=token)
