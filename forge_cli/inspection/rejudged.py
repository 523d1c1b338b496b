"""The calls of a past session, judged once more by the policy of today."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from forge_cli.core.calls import ToolCall
from forge_cli.core.wire import JsonObject
from forge_cli.engine.gate.answer import VerdictAnswer, answer_of
from forge_cli.inspection.past import judge_past
from forge_cli.record.calls import PastCall, PastVerdict
from forge_cli.sandbox.secrets import has_mark

CHANGES = {
    "blocked": "newly_blocked",
    "preApproved": "newly_allowed",
    "ask": "newly_asking",
    "refused": "newly_refused",
}


@dataclass(frozen=True)
class Rejudged:
    """A call of the past with the verdict that it had, and the one that it would have now."""

    call: ToolCall
    before: VerdictAnswer
    after: VerdictAnswer
    remembered: bool

    @property
    def change(self) -> str | None:
        return CHANGES[self.after["verdict"]] if self.before["verdict"] != self.after["verdict"] else None

    def prompts(self, answer: VerdictAnswer) -> bool:
        return answer["verdict"] == "ask" and not self.remembered

    def wire(self) -> JsonObject:
        found: JsonObject = {
            "tool": self.call.name,
            "input": self.call.args,
            "before": self.before,
            "after": self.after,
        }
        return {**found, "redacted": True} if has_mark(self.call.args) else found


async def rejudge(worker: str, workspace: Path, calls: Sequence[PastCall]) -> list[Rejudged]:
    """Those that had a verdict, each with the one that it would have now."""
    settled = [(past, past.verdict) for past in calls if past.verdict]
    after = await judge_past(worker, workspace, [past for past, _ in settled])
    return [
        Rejudged(past.call, _before(past, said), now.answer, past.remembered)
        for (past, said), now in zip(settled, after, strict=True)
    ]


def _before(past: PastCall, said: PastVerdict) -> VerdictAnswer:
    where = str(said.where) if said.where else None
    return answer_of(past.call.name, said.verdict, said.reason, rule=said.rule, where=where, by=said.by)
