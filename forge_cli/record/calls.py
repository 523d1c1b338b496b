"""The calls of a past session, each with the verdict that it had."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from forge_cli.core.approval import DecidedBy
from forge_cli.core.calls import ToolCall
from forge_cli.core.errors import Mark
from forge_cli.core.events import (
    ApprovalDecided,
    ApprovalRequired,
    ApprovalResponse,
    MessageEvent,
    ToolResult,
    ToolStarted,
)
from forge_cli.record.line import Line


@dataclass(frozen=True)
class PastVerdict:
    """What was said of a call; ``refused`` where it could not run at all."""

    verdict: str
    reason: str
    rule: str | None = None
    where: Mark | None = None
    by: DecidedBy | None = None

    @classmethod
    def of(cls, event: ApprovalDecided | ApprovalRequired) -> PastVerdict:
        """What settled a call, or the request that was left open."""
        match event:
            case ApprovalDecided():
                return cls(event.verdict, event.reason, event.rule, event.where, event.by)
            case ApprovalRequired(request=request):
                return cls("ask", request.reason, request.rule, request.where)


@dataclass
class PastCall:
    """A call that was made by the model, by a tool, or by a person; without a verdict where it came to none."""

    call: ToolCall
    by_model: bool
    verdict: PastVerdict | None = None
    remembered: bool = False
    """Was it allowed because an earlier one was allowed for the whole session?"""
    answer: bool | None = None
    """A person's yes or no to it; None where nobody said either."""


def past_calls(lines: Iterable[Line], delegation: str | None = None) -> list[PastCall]:
    """The calls of one worker in order, the root unless a task of a child worker is named; ids may come again later."""
    found: list[PastCall] = []
    wanted: dict[str, ToolCall] = {}
    known: dict[str, PastCall] = {}
    asked: dict[str, PastCall] = {}
    for line in lines:
        if line.delegation != delegation:
            continue
        match line.event:
            case MessageEvent(message=message):
                wanted |= {call.id: call for call in message.calls}
            case ToolStarted() as started:
                found.append(_started(started, wanted))
                known[started.tool_call_id] = found[-1]
            case ApprovalRequired(request=request) as required if past := known.get(request.tool_call_id):
                past.verdict = past.verdict or PastVerdict.of(required)
                asked[request.request_id] = past
            case ApprovalResponse(request_id=known_id, decision=decision) if past := asked.get(known_id):
                past.answer = decision.approved
            case ApprovalDecided() as decided if past := known.get(decided.tool_call_id):
                past.verdict, past.remembered = PastVerdict.of(decided), decided.cached
                past.answer = decided.approved if decided.by == "user" else None
            case ToolResult() as result if past := known.pop(result.tool_call_id, None):
                if past.verdict is None and result.status != "interrupted":
                    kind = "blocked" if result.status == "blocked" else "refused"
                    past.verdict = PastVerdict(kind, result.error or "")
    return found


def _started(event: ToolStarted, wanted: dict[str, ToolCall]) -> PastCall:
    call = wanted.get(event.tool_call_id)
    if call is not None:
        return PastCall(call, by_model=True)
    call = ToolCall(event.tool_call_id, event.tool_name, dict(event.args), parent=event.parent_call_id)
    return PastCall(call, by_model=False)
