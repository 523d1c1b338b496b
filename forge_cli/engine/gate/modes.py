"""What the person's own word adds to a verdict: a command line that they typed themselves."""

from __future__ import annotations

from dataclasses import replace

from forge_cli.core.approval import Approval
from forge_cli.engine.gate.judge import Judged


def typed_by_person(judged: Judged) -> Judged:
    """The call of somebody who typed it: it is not asked about, and what is blocked stays so."""
    verdict = judged.verdict
    if verdict.approval is not Approval.ASK:
        return judged
    reason = f"the person typed it; for the model: {verdict.reason}"
    allowed = replace(verdict, approval=Approval.PRE_APPROVED, reason=reason, by="user", grants=())
    return replace(judged, verdict=allowed)
