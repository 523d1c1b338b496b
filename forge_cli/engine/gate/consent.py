"""Consented, the third step of a call: a mode, an earlier answer, a trial or a person decides."""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

from msgspec.structs import replace

from forge_cli.core.approval import (
    MODE_TITLES,
    Approval,
    ApprovalDecision,
    ApprovalMode,
    ApprovalRequest,
    SessionMode,
    are_edits,
    kept_rule,
)
from forge_cli.core.calls import ToolOutcome
from forge_cli.core.events import StatusEvent
from forge_cli.core.tool import Preview
from forge_cli.engine.gate.steps import (
    Caller,
    CallingTool,
    Consented,
    Judged,
    Refusal,
    Requested,
    ShownTrial,
    is_complete,
)

if TYPE_CHECKING:
    from forge_cli.core.interrupt import InterruptSignal
    from forge_cli.engine.gate.controller import ApprovalController
    from forge_cli.engine.gate.judge import Judge
    from forge_cli.engine.gate.requesting import Asking, Requests
    from forge_cli.engine.gate.toolbox import Toolbox

_PLANNING = (
    "this conversation is in plan mode (read only), and the call does more than read; "
    "say what you would do, and the person leaves the mode by Shift+Tab or /mode ask"
)

UNTRUSTED_RULE = "provenance.after_untrusted"
"""The rule of calls that ask because of words of untrusted text."""

_ACCEPTED_EDIT = ApprovalDecision(
    True, note="the person accepts edits", by="mode", via=MODE_TITLES["acceptEdits"]
)

_IN_DRAFT = ApprovalDecision(
    True, note="in a draft, which is reviewed at its end", by="mode", via="the draft"
)


class Consent:
    """Gets consent for the calls of one worker and records every decision."""

    def __init__(
        self,
        judge: Judge,
        controller: ApprovalController,
        interrupt: InterruptSignal,
        toolbox: Toolbox,
    ) -> None:
        """Make the consent of a worker; ``toolbox`` is notified of rules that a person saves."""
        self.controller = controller
        self._judge = judge
        self._interrupt = interrupt
        self._toolbox = toolbox
        self._bus = controller.bus

    @cached_property
    def requests(self) -> Requests:
        from forge_cli.engine.gate.requesting import Requests  # most sessions ask nobody

        return Requests(self._judge, self.controller, self._interrupt)

    async def settle(self, requested: Requested, judged: Judged) -> Consented:
        """Get consent for a call, or raise Refusal."""
        verdict = judged.verdict
        reopened = self._judge.reopened
        if self._mode_allows(judged):
            return Consented(judged)
        if verdict.approval is Approval.BLOCKED:
            self._refuse_blocked(judged)
        # An earlier process has already recorded this approval.
        if reopened is not None and reopened.take_approval(judged.call):
            return Consented(judged)
        was_refused = reopened is not None and reopened.was_refused(judged.call)
        if verdict.approval is Approval.PRE_APPROVED and not was_refused:
            self._bus.emit(judged.decided(ApprovalDecision(True, by=verdict.by)))
            return Consented(judged)
        return await self._ask(requested, judged)

    def _mode_allows(self, judged: Judged) -> bool:
        """Return True if the mode of the session allows a call; raise Refusal if it forbids it."""
        decision = mode_decision(self.controller.session_mode, judged)
        if decision is None:
            return False
        # A question that was open when the session ended is for the person, whatever the present
        # mode is.
        if decision.approved and self._was_started_before(judged):
            return False
        self._bus.emit(judged.decided(decision))
        if not decision.approved:
            raise Refusal(
                "blocked", f"{judged.call.name} is blocked: {decision.note}", by=decision.by
            )
        return True

    def take_recorded(self, judged: Judged, known: ToolOutcome) -> ToolOutcome:
        """Record the decision of the session that is replayed, and return its outcome."""
        approved = known.status not in ("denied", "blocked")
        self._bus.emit(
            judged.decided(ApprovalDecision(approved, note="taken from the record", by="memory"))
        )
        return known

    def must_ask(self, judged: Judged) -> bool:
        """Return True if the call has a request that nothing settles without a person."""
        if judged.verdict.approval is not Approval.ASK:
            return False
        return self.controller.settled(self.requests.asked(judged)) is None

    async def park(self, judged: Judged) -> None:
        """Record the request of a call while an earlier call waits for an answer."""
        preview = await self.requests.preview(judged)
        await self._put(judged, self.requests.request(judged, preview), preview)

    async def _ask(self, requested: Requested, judged: Judged) -> Consented:
        """Take the first answer there is, in a fixed order, and record it."""
        from forge_cli.engine.gate.requesting import Asking

        asking = Asking(requested, judged)
        if self._judge.reopened:
            asking.pending = self._judge.reopened.take_pending(judged.call)
        if asking.pending:
            asking.request_id = asking.pending.request_id
        # The order matters: a trial may not run before the answer for this very call has counted,
        # and a person is asked only if nothing else answers.
        for answer in (self._remembered, self._parked, self._tried, self._saved_rule):
            decision = await answer(asking)
            if decision is not None:
                break
        else:
            decision = await self._person(asking)
        judged, preview = asking.judged, asking.preview
        if self._judge.provenance:
            self._judge.provenance.answered(judged, decision)
        self._bus.emit(judged.decided(decision, asking.request_id))
        if not decision.approved:
            self._refuse_denied(asking, decision)
        stamp = asking.request.stamp if asking.request else None
        if preview is not None and preview.for_apply is not None:
            return Consented(judged, stamp, preview.tried, preview.for_apply)
        if preview is None or stamp is None or not is_complete(preview.extent):
            return Consented(judged, stamp)
        return Consented(judged, stamp, preview.tried)

    async def _remembered(self, asking: Asking) -> ApprovalDecision | None:
        """Return the decision of an earlier grant.

        It does not count if this very call was answered while it waited.
        """
        if asking.pending is not None and asking.pending.answer is not None:
            return None
        # Its trial may show that it need not ask at all.
        undoable = asking.judged.verdict.undoable_if_tried
        if undoable and self.controller.mode is not ApprovalMode.APPROVE_ALL:
            return None
        return self.controller.settled(self.requests.asked(asking.judged))

    async def _parked(self, asking: Asking) -> ApprovalDecision | None:
        """Return the answer given while the session was parked.

        A yes counts only for what was shown then.
        """
        request = await self._shown(asking)
        pending = asking.pending
        if pending is None or pending.answer is None:
            return None
        shown_then = (pending.fingerprint, pending.stamp)
        if pending.answer.approved and shown_then != (request.fingerprint, request.stamp):
            sentence = f"{request.tool_name} changed since it was approved, so it asks again"
            self._bus.emit(StatusEvent("warning", sentence, tool_call_id=request.tool_call_id))
            return None
        # No grant is remembered here, so the record must not name one.
        return replace(pending.answer, grant=None)

    async def _tried(self, asking: Asking) -> ApprovalDecision | None:
        """Return a yes if the trial had no effect, or only effects that are allowed already."""
        await self._shown(asking)
        decision = self._trial_answer(asking.judged, asking.preview)
        if decision is not None:
            # The trial itself is the answer, so the decision belongs to no request.
            asking.request_id = None
        return decision

    async def _saved_rule(self, asking: Asking) -> ApprovalDecision | None:
        """Ask about a rule set whose answer is saved in the config, if it would allow the call."""
        rule = kept_rule(asking.judged.verdict.grants)
        if rule is None or self._was_started_before(asking.judged):
            return None
        if asking.judged.verdict.provenance:
            return None
        from forge_cli.engine.gate.rule_question import RuleQuestion

        question = RuleQuestion(self._judge, self.controller, self.requests, self._toolbox)
        if question.has_person:
            return await question.answer(asking, rule)
        return None

    async def _person(self, asking: Asking) -> ApprovalDecision:
        """Ask a person."""
        request = await self._shown(asking)
        self._check_flood(asking.judged)
        since = time.monotonic()
        decision = await self._put(asking.judged, request, asking.preview)
        asking.requested.waited += time.monotonic() - since
        return decision

    async def _shown(self, asking: Asking) -> ApprovalRequest:
        """Make the preview of a call and its request, once.

        A preview that a rule blocks ends the call.
        """
        if asking.request is None:
            asking.preview = await self.requests.preview(asking.judged)
            self._check_trial(asking.judged, asking.preview)
            self._judge_after_trial(asking)
            asking.request = self.requests.request(asking.judged, asking.preview, asking.request_id)
            asking.request_id = asking.request.request_id
        return asking.request

    def _judge_after_trial(self, asking: Asking) -> None:
        """Judge the words of a call again if its trial shows whether it can be undone."""
        provenance = self._judge.provenance
        judged, preview = asking.judged, asking.preview
        if provenance is None or not judged.verdict.provenance:
            return
        if judged.verdict.rule == UNTRUSTED_RULE and not judged.verdict.undoable_if_tried:
            return
        extent = preview.extent if preview else None
        undoable = is_complete(extent) and extent is not None and not extent.protected
        asking.judged = provenance.after_trial(judged, undoable=undoable)
        if asking.judged.verdict.approval is Approval.BLOCKED:
            if preview is not None and preview.tried is not None:
                self._bus.emit(preview.tried)
            self._refuse_blocked(asking.judged)

    def _check_flood(self, judged: Judged) -> None:
        """Raise Refusal instead of one more question about words of untrusted text."""
        provenance = self._judge.provenance
        if provenance is None or not judged.verdict.provenance:
            return
        if why := provenance.count_question(judged):
            self._bus.emit(judged.decided(ApprovalDecision(False, note=why, by="rule")))
            raise Refusal("denied", f"{judged.call.name} was not called; {why}", by="rule")

    def _was_started_before(self, judged: Judged) -> bool:
        """Return True if an earlier process of the session started the call."""
        reopened = self._judge.reopened
        return reopened is not None and reopened.knows(judged.call)

    def _refuse_denied(self, asking: Asking, decision: ApprovalDecision) -> NoReturn:
        judged = asking.judged
        note = f": {decision.note}" if decision.note else ""
        who = "the user said no"
        why = ""
        if decision.by != "user":
            who = "denied"
            why = f"; why it asked: {judged.verdict.reason}{_rule_place(judged)}"
        unchanged = ""
        if asking.preview and asking.preview.tried:
            unchanged = ", and nothing was changed"
        sentence = f"{judged.call.name} was not called; {who}{unchanged}{note}"
        raise Refusal("denied", sentence, by=decision.by, rule=why)

    async def _put(
        self, judged: Judged, request: ApprovalRequest, preview: Preview | None
    ) -> ApprovalDecision:
        return await self.controller.request_approval(
            request,
            judged.fingerprint,
            needs=self.requests.needs(judged),
            trial=ShownTrial.of(preview),
            may_park=judged.call.parent is None,
            names=judged.names,
        )

    def _check_trial(self, judged: Judged, preview: Preview | None) -> None:
        """Raise Refusal if the trial did something that a rule blocks, which is only known now."""
        if preview is None or preview.blocked is None:
            return
        if preview.tried is not None:
            self._bus.emit(preview.tried)
        self._refuse_blocked(replace(judged, verdict=preview.blocked))

    def _refuse_blocked(self, judged: Judged) -> NoReturn:
        verdict = judged.verdict
        self._bus.emit(judged.decided(ApprovalDecision(False, by=verdict.by)))
        sentence = f"{judged.call.name} is blocked: {verdict.reason}"
        raise Refusal("blocked", sentence, by=verdict.by, rule=_rule_place(judged))

    def _trial_answer(self, judged: Judged, preview: Preview | None) -> ApprovalDecision | None:
        if preview is None or preview.tried is None:
            return None
        self._bus.emit(preview.tried)
        if judged.verdict.undoable_if_tried:
            note = f"it can be undone; {preview.tried.sentence()}"
            return ApprovalDecision(True, note=note, by="tool")
        if judged.verdict.provenance:
            return None
        if preview.tried.outcome == "noEffect" and judged.verdict.unruled:
            return ApprovalDecision(True, note=preview.tried.sentence(), by="tool")
        settled = self.controller.settled(self.requests.asked_after(judged, preview))
        if settled is not None or not judged.verdict.unruled or self._was_started_before(judged):
            return settled
        if self.controller.draft_allows(preview.extent):
            return _IN_DRAFT
        edits = preview.extent is not None and preview.extent.only_edits
        if edits and self.controller.session_mode == "acceptEdits":
            return _ACCEPTED_EDIT
        return None


def _rule_place(judged: Judged) -> str:
    if judged.verdict.where:
        return f" ({judged.verdict.where})"
    return ""


def mode_decision(mode: SessionMode, judged: Judged) -> ApprovalDecision | None:
    """Return the decision of a mode on a call, or None. No other code lets a mode decide."""
    approval = judged.verdict.approval
    match mode:
        case "readOnly" if (
            approval is not Approval.BLOCKED and _is_of_model(judged) and not _reads(judged)
        ):
            return ApprovalDecision(False, note=_PLANNING, by="mode", via=MODE_TITLES[mode])
        case "acceptEdits" if approval is Approval.ASK and _edits(judged):
            return _ACCEPTED_EDIT
        case _:
            return None


def typed_by_person(judged: Judged) -> Judged:
    """Return a call that the user typed as approved; a blocked one stays blocked."""
    verdict = judged.verdict
    if verdict.approval is not Approval.ASK:
        return judged
    reason = f"the person typed it; for the model: {verdict.reason}"
    allowed = replace(verdict, approval=Approval.PRE_APPROVED, reason=reason, by="user", grants=())
    return replace(judged, verdict=allowed)


def _edits(judged: Judged) -> bool:
    return judged.tool.risk != "high" and are_edits(judged.verdict.grants)


def _is_of_model(judged: Judged) -> bool:
    caller = judged.caller
    if isinstance(caller, CallingTool):
        caller = caller.root
    return caller is Caller.MODEL


def _reads(judged: Judged) -> bool:
    """Return True if the call only reads, as declared or, for a command, according to its rules."""
    real = judged.target or judged
    changes = any(path.use.access.changes for path in real.places)
    return not changes and (real.tool.fits_read_only or judged.verdict.risk == "low")
