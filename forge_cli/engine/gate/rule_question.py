"""Questions about a rule set before the first call that needs it.

Yes and no are saved in the user's config.
"""

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
    kept_rule,
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
"""The tool name in requests about rule sets."""


class RuleQuestion:
    """The question to a person whether a rule set applies from now on."""

    def __init__(
        self, judge: Judge, controller: ApprovalController, requests: Requests, toolbox: Toolbox
    ) -> None:
        self._judge = judge
        self._controller = controller
        self._requests = requests
        self._toolbox = toolbox

    @property
    def has_person(self) -> bool:
        """True if a person with a writable config can be asked.

        A program that answers may approve everything, so it is not asked to change a config.
        """
        controller = self._controller
        if controller.callback is not None or not controller.bus.attended:
            return False
        return (
            controller.mode is ApprovalMode.INTERACTIVE
            and "user" in self._judge.worker.policy_files
        )

    async def answer(self, asking: Asking, rule: GrantRule) -> ApprovalDecision | None:
        """Ask about a rule that would allow the whole call, and return a yes or None.

        With a yes, a trial whose changes the rule allows is applied and not run again. After any
        other answer the call asks by itself.
        """
        judged = asking.judged
        preview = asking.preview
        since = time.monotonic()
        # A parent or another child may have asked while this call was tried, or waited here.
        async with self._controller.rule_question_lock:
            approved = await self._earlier_answer(judged)
            if approved is None:
                approved = await self._ask(judged, rule, preview.runs if preview else None)
        asking.requested.waited += time.monotonic() - since
        extent = None
        if preview and preview.tried:
            extent = preview.extent
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
        """Return True if the answer is yes, and save an answer that a person gave."""
        file = self._judge.worker.policy_files["user"]
        request = self._request(judged, rule, runs, file)
        decision = await self._controller.request_approval(request, may_park=False)
        self._controller.bus.emit(settled_request(request, decision))
        # A no with a note may be no answer to the rule: the user cancelled it in an editor.
        if decision.approved or (decision.by == "user" and decision.note is None):
            self._save(rule, file, decision)
        return decision.approved

    def _save(self, rule: GrantRule, file: str, decision: ApprovalDecision) -> None:
        said = rule
        if not decision.approved:
            said = replace(rule, user_says=rule.user_refuses)
        try:
            plan_edit(Path(file), [said], user=True).write()
        except CannotEditError as error:
            remedy = f"to save it, add {for_user(said)}"
            sentence = f"the answer applies to this session only: {error}; {remedy}"
            self._controller.bus.emit(StatusEvent("warning", sentence))
        saved = for_user(said)
        self._controller.saved_rules.append(saved)
        self._toolbox.report_saved_rule(saved)

    async def _earlier_answer(self, judged: Judged) -> bool | None:
        """Apply the answers that other workers got, and return the one for this call.

        Return None if no answer is about this call.
        """
        toolbox = self._toolbox
        unknown = [each for each in self._controller.saved_rules if each not in toolbox.saved_rules]
        if not unknown:
            return None
        for each in unknown:
            toolbox.report_saved_rule(each)
        again = await self._judge.decide(judged.call, judged.caller)
        if kept_rule(again.verdict.grants) is not None:
            return None
        return again.verdict.approval is Approval.PRE_APPROVED

    def _request(
        self, judged: Judged, rule: GrantRule, runs: CommandRun | None, file: str
    ) -> ApprovalRequest:
        worker = " > ".join(self._controller.bus.path or (self._judge.worker.name,))
        command = runs.argument if runs else None
        return ApprovalRequest(
            request_id=new_id("approval"),
            # An ID of its own: the call that needs the rule has one decision, which may still come.
            tool_call_id=new_id("sets"),
            tool_name=SETS,
            args=deepcopy(judged.args),
            description=f"{worker} asks once: may it use {rule.user_title or rule.title}?",
            reason=f"it would allow this call; the answer is saved in {file}, be it yes or no",
            risk="medium",
            rule=None,
            where=None,
            preview=Text(lines_to_paste([rule], user=True)),
            runs=runs,
            defaults=tuple(name for name in judged.args if name != command) or None,
            once=True,
            kept=file,
        )
