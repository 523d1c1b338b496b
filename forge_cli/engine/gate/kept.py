"""Rules that are asked about once, before the first call that needs them: yes and no are kept in the user's config."""

from __future__ import annotations

import time
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from forge_cli.core.approval import (
    Approval,
    ApprovalDecision,
    ApprovalMode,
    ApprovalRequest,
    CommandRun,
    GrantRule,
    without_kept,
)
from forge_cli.core.bus import new_id
from forge_cli.core.events import StatusEvent
from forge_cli.core.results import Text
from forge_cli.engine.gate.steps import is_complete, settled_request
from forge_cli.files.edit import CannotEditError, for_user, lines_to_paste, plan_edit

if TYPE_CHECKING:
    from forge_cli.engine.gate.controller import ApprovalController
    from forge_cli.engine.gate.judge import Judge
    from forge_cli.engine.gate.requesting import Asking, Requests
    from forge_cli.engine.gate.steps import Judged
    from forge_cli.engine.gate.toolbox import Toolbox

SETS = "rule sets"
"""The name that such a request has in place of a tool's."""


class KeptQuestion:
    """Asks a person, if one is there, whether a rule is to hold from now on, and keeps the answer."""

    def __init__(
        self, judge: Judge, controller: ApprovalController, requests: Requests, toolbox: Toolbox
    ) -> None:
        self._judge = judge
        self._controller = controller
        self._requests = requests
        self._toolbox = toolbox

    @property
    def has_person(self) -> bool:
        """Return True if a person is there whose config can be written.

        A program that answers may say yes to everything, and is not asked to change a config.
        """
        controller = self._controller
        if controller.callback is not None or not controller.bus.attended:
            return False
        return (
            controller.mode is ApprovalMode.INTERACTIVE
            and "user" in self._judge.worker.policy_files
        )

    async def answer(self, asking: Asking, rule: GrantRule) -> ApprovalDecision | None:
        """Ask about a rule that would allow the whole call: a yes lets it go on.

        A trial that the rule lets apply is applied, and not done again. After any other answer the call asks by itself.
        """
        judged, preview = asking.judged, asking.preview
        since = time.monotonic()
        approved = await self._ask(judged, rule, preview.runs if preview else None)
        asking.requested.waited += time.monotonic() - since
        extent = preview.extent if preview and preview.tried else None
        if approved and extent and extent.only_edits:
            asking.request_id = None
            return ApprovalDecision(True, note=f"{rule.title}: allowed from now on")
        again = judged
        if approved and not is_complete(extent):
            again = await self._judge.decide(judged.call, judged.caller)
        if again.verdict.approval is Approval.PRE_APPROVED:
            asking.judged = again
            asking.preview = asking.request = asking.request_id = None
            return ApprovalDecision(True, by=again.verdict.by)
        verdict = replace(judged.verdict, grants=without_kept(judged.verdict.grants))
        asking.judged = replace(judged, verdict=verdict)
        asking.request = self._requests.request(asking.judged, preview, asking.request_id)
        return None

    async def _ask(self, judged: Judged, rule: GrantRule, runs: CommandRun | None) -> bool:
        """Return True if the person said yes; only what they said themselves is kept."""
        file = self._judge.worker.policy_files["user"]
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
            sentence = (
                f"the answer holds for this session only: {error}; to keep it, add {for_user(said)}"
            )
            self._controller.bus.emit(StatusEvent("warning", sentence))
        self._toolbox.keep_rule(for_user(said))

    def _request(
        self, judged: Judged, rule: GrantRule, runs: CommandRun | None, file: str
    ) -> ApprovalRequest:
        worker = " > ".join(self._controller.bus.path or (self._judge.worker.name,))
        command = runs.argument if runs else None
        return ApprovalRequest(
            request_id=new_id("approval"),
            tool_call_id=new_id(
                "sets"
            ),  # one of its own: the call that needs it has its verdict, and may ask itself
            tool_name=SETS,
            args=deepcopy(judged.args),
            description=f"{worker} asks once: may it use {rule.user_title or rule.title}?",
            reason=f"it would cover this call; yes and no are both kept in {file}",
            risk="medium",
            rule=None,
            where=None,
            preview=Text(lines_to_paste([rule], user=True)),
            runs=runs,
            defaults=tuple(name for name in judged.args if name != command) or None,
            once=True,
            kept=file,
        )
