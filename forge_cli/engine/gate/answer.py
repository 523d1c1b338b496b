"""The verdict on one call as data for users and programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge_cli.core.approval import Approval
from forge_cli.core.calls import ToolCall
from forge_cli.engine.gate.grants import offers_for
from forge_cli.engine.gate.outlook import Outlook, VerdictAnswer, answer_of
from forge_cli.engine.gate.steps import Caller, Judged, Refusal

if TYPE_CHECKING:
    from forge_cli.engine.gate.guard import Guard

TRIES = {
    True: "without an effect it does not ask",
    False: "it asks in any case, with what it did there",
}
"""By whether no rule covers the call."""


async def verdict_on(guard: Guard, call: ToolCall, caller: Caller) -> Outlook:
    """Return the verdict on a call with every reason; ``refused`` if it cannot run at all."""
    try:
        return outlook_of(guard, await guard.judge.verdict(call, caller))
    except Refusal as refusal:
        return Outlook(refused(call, refusal))


def refused(call: ToolCall, refusal: Refusal) -> VerdictAnswer:
    """Return the answer for a call that is refused without a question."""
    kind = "blocked" if refusal.status == "blocked" else "refused"
    return answer_of(call.name, kind, refusal.sentence, by=refusal.by)


def outlook_of(guard: Guard, judged: Judged) -> Outlook:
    """Return the outlook of a call that can run, with the hooks that it would pass."""
    verdict = judged.verdict
    hooks = guard.judge.hooks
    offers = tuple(offers_for(verdict.grants))
    before = hooks.facts_before(judged) if hooks else []
    places = [verdict.where]
    for part in verdict.parts:
        places += [part.where, *part.met]
    met = dict.fromkeys(str(where) for where in places if where)
    answer = answer_of(
        judged.call.name,
        verdict.approval.value,
        verdict.reason,
        rule=verdict.rule,
        where=str(verdict.where) if verdict.where else None,
        by=verdict.by,
        risk=verdict.risk or judged.tool.risk,
    )
    if verdict.details:
        answer["details"] = list(verdict.details)
    if offers:
        answer["grants"] = [
            {"text": each.text, "rules": [*map(str, each.rules)]} for each in offers
        ]
    if before:
        answer["hooks"] = before
    is_tried = verdict.tried_first or judged.tool.apply is not None
    if is_tried and verdict.approval is Approval.ASK:
        answer["tries"] = TRIES[verdict.unruled]
    return Outlook(answer, offers, tuple(met))
