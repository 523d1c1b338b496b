"""Outcome, the last step of a call: the one result that every call gets."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from forge_cli.core.calls import OutcomeStatus, ToolCall, ToolOutcome
from forge_cli.core.errors import BlockedError, ToolError, ToolTimeout
from forge_cli.core.events import StatusEvent
from forge_cli.core.interrupt import Parked
from forge_cli.core.phrases import INTERRUPTED_CALL
from forge_cli.core.results import ResultValue, as_result, bounded, is_misfit
from forge_cli.core.text import counted
from forge_cli.core.thirdparty import is_inspecting
from forge_cli.core.wire import error_text, sentence_of
from forge_cli.engine import gate
from forge_cli.engine.gate.execution import TOOL, consult
from forge_cli.engine.gate.judge import Refusal

if TYPE_CHECKING:
    from forge_cli.core.bus import EventBus
    from forge_cli.engine.gate.execution import CallClock, Performed
    from forge_cli.engine.gate.guard import Guard, Requested
    from forge_cli.engine.gate.judge import Judged


def outcome_of(call: ToolCall, performed: Performed, clock: CallClock, bus: EventBus) -> ToolOutcome:
    """The outcome of a call that was performed; Parked leaves it open."""
    if performed.late:
        sentence = f"{call.name} was stopped after {counted(clock.limit, 'second')}"
        return _with_kept(ToolOutcome.failed(call, "timeout", sentence), clock)
    match performed.error:
        case None:
            return _success(call, performed.value, bus)
        case Parked() | Refusal() as error:
            raise error
        case BlockedError() as error:
            return ToolOutcome.failed(call, "blocked", str(error), by="tool")
        case ToolError() as error:
            return _failure(call, error)
        case error:
            trace, place = gate.debugging.tell_traceback(error), gate.debugging.place_of(error)
            sentence = f"{error_text(error)}{f' ({place})' if place else ''}"
            return replace(ToolOutcome.failed(call, "error", sentence), traceback=trace)


async def conclude(
    guard: Guard, requested: Requested, ended: ToolOutcome | Refusal | None, judged: Judged | None
) -> ToolOutcome:
    """Put the one outcome of a call on record, and tell it to its tool and to hooks.

    One that was performed, refused or cut short; with what its tool still gave back by then.
    """
    outcome, call = ended or Refusal("interrupted", INTERRUPTED_CALL), requested.call
    if isinstance(outcome, Refusal):
        outcome = ToolOutcome.failed(call, outcome.status, outcome.sentence, by=outcome.by, rule=outcome.rule)
    if outcome.status == "interrupted":
        outcome = _with_kept(outcome, requested.clock)
    outcome = replace(outcome, denials=(*requested.denials, *guard.network_denials))
    guard.network_denials.clear()
    if guard.repeated:
        outcome = guard.repeated.compared(outcome)
    elif (offer := guard.offers.get(call.name)) and offer.tool.on_outcome:
        try:
            consult(f"{TOOL}{call.name}", offer.tool.on_outcome, call.args, outcome.status)
        except Exception as error:  # third-party code, and nothing depends on it
            gate.debugging.tell_traceback(error)
    seconds = time.monotonic() - requested.started - requested.waited
    outcome = replace(outcome, duration_ms=round(seconds * 1000))
    if guard.before_result:
        await guard.before_result(outcome.value.wire())
    guard.finish(outcome)
    if guard.judge.hooks:
        with guard.interrupt.scope():
            await guard.judge.hooks.after(outcome, judged)
    return outcome


def _success(call: ToolCall, returned: Any, bus: EventBus) -> ToolOutcome:
    def warn(problem: str) -> None:
        bus.emit(StatusEvent("warning", f"{call.name}: {problem}", tool_call_id=call.id))

    try:
        value = _result_value(returned)
    except (Exception, SystemExit) as error:  # third-party code: what a tool returns may not be what it seems
        return ToolOutcome.failed(call, "error", error_text(error))
    if is_misfit(value):
        warn("its result names a well-known kind without having what that kind needs, so it is taken as JSON")
    if is_inspecting() and (part := gate.debugging.find_unwritable(returned)):
        warn(f"its result has {part} in it, which JSON cannot carry")
    return ToolOutcome(call, "success", value)


def _failure(call: ToolCall, error: ToolError) -> ToolOutcome:
    sentence = sentence_of(error) or f"{call.name} failed without a message"
    status: OutcomeStatus = "timeout" if isinstance(error, ToolTimeout) else "error"
    return _with_value(ToolOutcome.failed(call, status, sentence, by="tool"), error.value)


def _with_kept(outcome: ToolOutcome, clock: CallClock | None) -> ToolOutcome:
    """The outcome of a call that was stopped, with what its tool could still give back."""
    return _with_value(outcome, clock.kept if clock else None)


def _with_value(outcome: ToolOutcome, value: Any) -> ToolOutcome:
    """The outcome of a call that failed, with the result that it carries all the same, if that can be written."""
    if value is None:
        return outcome
    try:
        return replace(outcome, value=_result_value(value))
    except (Exception, SystemExit) as error:  # third-party code: a value may not be what it seems
        gate.debugging.tell_traceback(error)
        return outcome


def _result_value(value: Any) -> ResultValue:
    return bounded(as_result(value))
