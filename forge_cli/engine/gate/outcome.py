"""Outcome, the last step of a call: the one result that every call gets."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from forge_cli.core.calls import OutcomeStatus, ToolCall, ToolOutcome
from forge_cli.core.errors import BlockedError, ToolError, ToolTimeout
from forge_cli.core.events import StatusEvent
from forge_cli.core.interrupt import Parked
from forge_cli.core.phrases import INTERRUPTED_CALL
from forge_cli.core.results import as_result, bounded, is_misfit
from forge_cli.core.text import counted
from forge_cli.core.thirdparty import is_inspecting
from forge_cli.core.wire import error_text
from forge_cli.engine.gate.execution import TOOL, consult
from forge_cli.engine.gate.steps import CallClock, Performed, Refusal, Requested

if TYPE_CHECKING:
    from forge_cli.core.bus import EventBus
    from forge_cli.core.trial import CommandTried
    from forge_cli.schema.tool import Tool


def outcome_of(
    call: ToolCall, performed: Performed, clock: CallClock, bus: EventBus
) -> ToolOutcome:
    """Return the outcome of an executed call; raise Parked if the call stays open."""
    if performed.late:
        sentence = f"{call.name} was stopped after {counted(clock.limit, 'second')}"
        return _with_value(ToolOutcome.failed(call, "timeout", sentence), clock.partial_value)
    match error := performed.error:
        case None:
            return _success(call, performed.value, bus)
        case Parked() | Refusal():
            raise error
        case BlockedError():
            return ToolOutcome.failed(call, "blocked", str(error), by="tool")
        case ToolError():
            with suppress(Exception):  # third-party code: its ``__str__`` may fail
                sentence = str(error) or f"{call.name} failed without a message"
                status: OutcomeStatus = "timeout" if isinstance(error, ToolTimeout) else "error"
                return _with_value(
                    ToolOutcome.failed(call, status, sentence, by="tool"), error.value
                )
    # Loaded with the first unexpected error.
    from forge_cli.engine.gate.debugging import place_of, report_traceback

    trace = report_traceback(error)
    place = place_of(error)
    sentence = f"{error_text(error)} ({place})" if place else error_text(error)
    return replace(ToolOutcome.failed(call, "error", sentence), traceback=trace)


def ended_as(requested: Requested, ended: ToolOutcome | Refusal | None) -> ToolOutcome:
    """Return the outcome of a call, however it ended, with any partial value of its tool."""
    outcome = ended or Refusal("interrupted", INTERRUPTED_CALL)
    call = requested.call
    if isinstance(outcome, Refusal):
        outcome = ToolOutcome.failed(
            call, outcome.status, outcome.sentence, by=outcome.by, rule=outcome.rule
        )
    if outcome.status == "interrupted":
        outcome = _with_value(outcome, requested.clock and requested.clock.partial_value)
    return outcome


def report_to_tool(tool: Tool, outcome: ToolOutcome) -> None:
    """Report the outcome of a call to its tool, if the tool wants it."""
    if tool.on_outcome:
        try:
            consult(
                f"{TOOL}{outcome.call.name}", tool.on_outcome, outcome.call.args, outcome.status
            )
        except Exception as error:  # third-party code, and nothing depends on it
            from forge_cli.engine.gate.debugging import report_traceback

            report_traceback(error)


def _success(call: ToolCall, returned: Any, bus: EventBus) -> ToolOutcome:
    def warn(problem: str) -> None:
        bus.emit(StatusEvent("warning", f"{call.name}: {problem}", tool_call_id=call.id))

    try:
        value = bounded(as_result(returned))
    except (Exception, SystemExit) as error:  # third-party code: properties of its own classes
        return ToolOutcome.failed(call, "error", error_text(error))
    if is_misfit(returned, value):
        warn("its result names a well-known kind but lacks fields of it, so it is treated as JSON")
    if is_inspecting():
        from forge_cli.engine.gate.debugging import find_unwritable

        part = find_unwritable(returned)
        if part:
            warn(f"its result has {part} in it, which JSON cannot represent")
    return ToolOutcome(call, "success", value)


def _with_value(outcome: ToolOutcome, value: Any) -> ToolOutcome:
    """Return a failed outcome with the value that its tool still returned."""
    with suppress(Exception):  # third-party code: reading the value may fail
        if value is not None:
            return replace(outcome, value=bounded(as_result(value)))
    return outcome


def report_applied(bus: EventBus, tried: CommandTried, error: BaseException | None) -> None:
    """Record that the changes of a trial are applied; a failed command has a value, too."""
    changes = tried.changed or (tried.summary is not None and tried.outcome == "effects")
    if changes and (error is None or (isinstance(error, ToolError) and error.value is not None)):
        bus.emit(replace(tried, applied=True))
