"""Rules that are asked about once, before the first call that needs them: yes and no are kept in the user's config."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from forge_cli.core.approval import (
    ApprovalDecision,
    ApprovalMode,
    ApprovalRequest,
    CommandRun,
    GrantRule,
    kept_rule,
)
from forge_cli.core.bus import new_id
from forge_cli.core.events import StatusEvent
from forge_cli.core.results import Text
from forge_cli.engine.gate.steps import settled_request
from forge_cli.files.edit import CannotEditError, for_user, lines_to_paste, plan_edit

if TYPE_CHECKING:
    from forge_cli.engine.gate.controller import ApprovalController
    from forge_cli.engine.gate.judge import JudgedWorker
    from forge_cli.engine.gate.steps import Judged

SETS = "rule sets"
"""The name that such a request has in place of a tool's."""


class KeptQuestion:
    """Asks a person, where there is one, whether a rule is to hold from now on, and keeps the answer."""

    def __init__(self, worker: JudgedWorker, controller: ApprovalController) -> None:
        self._worker, self._controller = worker, controller

    def rule_for(self, judged: Judged) -> GrantRule | None:
        """Return the rule that would allow all of a call, if a person is there who can say so for good.

        A program that answers may say yes to everything, and is not asked to change a config.
        """
        controller = self._controller
        is_person = controller.callback is None and controller.bus.attended
        if not is_person or controller.mode is not ApprovalMode.INTERACTIVE or "user" not in self._worker.policy_files:
            return None
        return kept_rule(judged.verdict.grants)

    async def ask(self, judged: Judged, rule: GrantRule, runs: CommandRun | None) -> bool:
        """Return True if the person said yes; only what they said themselves is kept."""
        file = self._worker.policy_files["user"]
        request = self._request(judged, rule, runs, file)
        decision = await self._controller.request_approval(request, may_park=False)
        self._controller.bus.emit(settled_request(request, decision))
        if decision.approved or (decision.by == "user" and decision.note is None):
            self._keep(rule, file, decision)
        return decision.approved

    def _keep(self, rule: GrantRule, file: str, decision: ApprovalDecision) -> None:
        said = rule if decision.approved else replace(rule, user_says=rule.user_refuses)
        try:
            plan_edit(Path(file), [said], user=True).write()
        except CannotEditError as error:
            sentence = f"the answer holds for this session only: {error}; to keep it, add {for_user(said)}"
            self._controller.bus.emit(StatusEvent("warning", sentence))
        if rule.keep:
            rule.keep(for_user(said).says)

    def _request(self, judged: Judged, rule: GrantRule, runs: CommandRun | None, file: str) -> ApprovalRequest:
        worker = " > ".join(self._controller.bus.path or (self._worker.name,))
        return ApprovalRequest(
            request_id=new_id("approval"),
            tool_call_id=new_id("sets"),  # one of its own: the call that needs it has its verdict, and may ask itself
            tool_name=SETS,
            args=deepcopy(judged.args),
            description=f"{worker} asks once: may it use {rule.user_title or rule.title}?",
            reason=f"it would cover this call; yes and no are both kept in {file}",
            risk="medium",
            rule=None,
            where=None,
            preview=Text(lines_to_paste([rule], user=True)),
            runs=runs,
            defaults=tuple(name for name in judged.args if not (runs and name == runs.argument)) or None,
            once=True,
            kept=file,
        )
