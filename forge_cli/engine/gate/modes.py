"""The person's own word on calls, beside the policy: the mode of their session, and command lines that they type."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from forge_cli.core.approval import MODE_TITLES, Approval, ApprovalDecision, GrantRule, Needs, SessionMode
from forge_cli.engine.gate.judge import Caller, CallingTool, Judged, Refusal

if TYPE_CHECKING:
    from forge_cli.engine.gate.guard import Guard

TOOLS_ZONE = "tools"
"""Programs lie there that the worker may call: they are not edited unasked."""
_PLANNING = (
    "this conversation is in plan mode (read only), and the call does more than read; say what you would do, and the "
    "person leaves the mode by Shift+Tab or /mode ask"
)


def settles(guard: Guard, judged: Judged) -> bool:
    """Does the mode of the session allow a call? One that it refuses ends here."""
    decision = decide(guard.controller.session_mode, judged)
    if decision is None or (decision.approved and guard.is_reopened(judged.call)):  # somebody was asked about it before
        return False
    guard.bus.emit(judged.decided(decision))
    if not decision.approved:
        raise Refusal("blocked", f"{judged.call.name} is blocked: {decision.note}", by=decision.by)
    return True


def decide(mode: SessionMode, judged: Judged) -> ApprovalDecision | None:
    """What a mode says of a call, whatever its verdict: the one place where a mode grants or refuses anything."""
    approval = judged.verdict.approval
    match mode:
        case "readOnly" if approval is not Approval.BLOCKED and _is_of_model(judged) and not _reads(judged):
            return ApprovalDecision(False, note=_PLANNING, by="mode", via=MODE_TITLES[mode])
        case "acceptEdits" if approval is Approval.ASK and judged.tool.risk != "high" and _edits(judged.verdict.grants):
            return ApprovalDecision(True, note="the person accepts edits", by="mode", via=MODE_TITLES[mode])
        case _:
            return None


def typed_by_person(judged: Judged) -> Judged:
    """The call of somebody who typed it: it is not asked about, and what is blocked stays so."""
    verdict = judged.verdict
    if verdict.approval is not Approval.ASK:
        return judged
    reason = f"the person typed it; for the model: {verdict.reason}"
    allowed = replace(verdict, approval=Approval.PRE_APPROVED, reason=reason, by="user", grants=())
    return replace(judged, verdict=allowed)


def _is_of_model(judged: Judged) -> bool:
    caller = judged.caller
    return (caller.root if isinstance(caller, CallingTool) else caller) is Caller.MODEL


def _reads(judged: Judged) -> bool:
    """Whether the call does no more than read, as declared or, for a command, as its rules know."""
    real = judged.target or judged
    changes = any(path.use.access.changes for path in real.places)
    return not changes and (real.tool.fits_read_only or judged.verdict.risk == "low")


def _edits(needs: Needs) -> bool:
    """Would rules for edits in zones allow everything about the call that asks?"""
    return bool(needs) and all(any(map(_is_for_edits, need)) for need in needs)


def _is_for_edits(rule: GrantRule) -> bool:
    match rule.at:
        case ("sandbox", "zones", str() as zone, "approval", "write"):
            return zone != TOOLS_ZONE
    return False
