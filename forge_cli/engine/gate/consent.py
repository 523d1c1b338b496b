"""Consented, the third step of a call: remembered, given while the session was parked, by its mode, or by a person."""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

from msgspec.structs import replace

from forge_cli.core.approval import (
    MODE_TITLES,
    Approval,
    ApprovalDecision,
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
    "this conversation is in plan mode (read only), and the call does more than read; say what you would do, and the "
    "person leaves the mode by Shift+Tab or /mode ask"
)

_ACCEPTED_EDIT = ApprovalDecision(
    True, note="the person accepts edits", by="mode", via=MODE_TITLES["acceptEdits"]
)


class Consent:
    """Gets consent for the calls of one worker, and writes every decision down."""

    def __init__(
        self,
        judge: Judge,
        controller: ApprovalController,
        interrupt: InterruptSignal,
        toolbox: Toolbox,
    ) -> None:
        """``toolbox`` hears of rules that a person keeps."""
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
        """Get consent or refuse."""
        verdict, reopened = judged.verdict, self._judge.reopened
        if self._mode_allows(judged):
            return Consented(judged)
        if verdict.approval is Approval.BLOCKED:
            self._refuse_blocked(judged)
        was_refused = reopened is not None and reopened.was_refused(judged.call)
        was_approved = reopened is not None and reopened.take_approval(judged.call)
        if was_approved:
            return Consented(judged)
        if verdict.approval is Approval.PRE_APPROVED and not was_refused:
            self._bus.emit(judged.decided(ApprovalDecision(True, by=verdict.by)))
            return Consented(judged)
        return await self._ask(requested, judged)

    def _mode_allows(self, judged: Judged) -> bool:
        """Does the mode of the session allow a call? One that it refuses ends here."""
        decision = mode_decision(self.controller.session_mode, judged)
        if decision is None or (
            decision.approved and self._was_taken_up(judged)
        ):  # it was asked about before
            return False
        self._bus.emit(judged.decided(decision))
        if not decision.approved:
            raise Refusal(
                "blocked", f"{judged.call.name} is blocked: {decision.note}", by=decision.by
            )
        return True

    def take_recorded(self, judged: Judged, known: ToolOutcome) -> ToolOutcome:
        """Decide as the record does, in a session that is repeated from it."""
        approved = known.status not in ("denied", "blocked")
        self._bus.emit(
            judged.decided(ApprovalDecision(approved, note="taken from the record", by="memory"))
        )
        return known

    def must_ask(self, judged: Judged) -> bool:
        """Return True if the call has a request to make, which nothing settles by itself."""
        if judged.verdict.approval is not Approval.ASK:
            return False
        return self.controller.settled(self.requests.asked(judged)) is None

    async def park(self, judged: Judged) -> None:
        """Put the request of a call on record, while an earlier call waits."""
        preview = await self.requests.preview(judged)
        await self._put(judged, self.requests.request(judged, preview), preview)

    async def _ask(self, requested: Requested, judged: Judged) -> Consented:
        """Take the first answer that there is, and put it on record."""
        from forge_cli.engine.gate.requesting import Asking

        pending = self._judge.reopened.take_pending(judged.call) if self._judge.reopened else None
        asking = Asking(
            requested, judged, pending, request_id=pending.request_id if pending else None
        )
        for answer in (self._remembered, self._parked, self._tried, self._kept):
            decision = await answer(asking)
            if decision is not None:
                break
        else:
            decision = await self._person(asking)
        judged, preview = asking.judged, asking.preview
        self._bus.emit(judged.decided(decision, asking.request_id))
        if not decision.approved:
            self._refuse_denied(asking, decision)
        stamp = asking.request.stamp if asking.request else None
        if preview is None or stamp is None or not is_complete(preview.extent):
            return Consented(judged, stamp)
        return Consented(judged, stamp, preview.tried)

    async def _remembered(self, asking: Asking) -> ApprovalDecision | None:
        """Return what was decided of calls like this one, unless the call itself was answered while it waited."""
        if asking.pending is not None and asking.pending.answer is not None:
            return None
        return self.controller.settled(self.requests.asked(asking.judged))

    async def _parked(self, asking: Asking) -> ApprovalDecision | None:
        """Return the answer given while the session was parked; a yes counts only for what was shown then."""
        request = await self._shown(asking)
        pending = asking.pending
        if pending is None or pending.answer is None:
            return None
        if pending.answer.approved and (pending.fingerprint, pending.stamp) != (
            request.fingerprint,
            request.stamp,
        ):
            sentence = f"{request.tool_name} is no longer what was approved, so it asks again"
            self._bus.emit(StatusEvent("warning", sentence, tool_call_id=request.tool_call_id))
            return None
        return replace(pending.answer, grant=None)

    async def _tried(self, asking: Asking) -> ApprovalDecision | None:
        """Return what the trial answers: yes if it had no effect, or only effects that were allowed before."""
        await self._shown(asking)
        decision = self._trial_answer(asking.judged, asking.preview)
        if decision is not None:
            asking.request_id = None
        return decision

    async def _kept(self, asking: Asking) -> ApprovalDecision | None:
        """Ask about a rule whose answer is kept, if one would allow the call."""
        rule = kept_rule(asking.judged.verdict.grants)
        if rule is None or self._was_taken_up(asking.judged):
            return None
        from forge_cli.engine.gate.kept import KeptQuestion

        question = KeptQuestion(self._judge, self.controller, self.requests, self._toolbox)
        return await question.answer(asking, rule) if question.has_person else None

    async def _person(self, asking: Asking) -> ApprovalDecision:
        """Put the request to a person."""
        request = await self._shown(asking)
        since = time.monotonic()
        decision = await self._put(asking.judged, request, asking.preview)
        asking.requested.waited += time.monotonic() - since
        return decision

    async def _shown(self, asking: Asking) -> ApprovalRequest:
        """Make the preview of a call and its request once; a preview that a rule blocks ends the call."""
        if asking.request is None:
            asking.preview = await self.requests.preview(asking.judged)
            self._check_trial(asking.judged, asking.preview)
            asking.request = self.requests.request(asking.judged, asking.preview, asking.request_id)
            asking.request_id = asking.request.request_id
        return asking.request

    def _was_taken_up(self, judged: Judged) -> bool:
        """Return True if an earlier process of a resumed session has taken up the call."""
        reopened = self._judge.reopened
        return reopened is not None and reopened.knows(judged.call)

    def _refuse_denied(self, asking: Asking, decision: ApprovalDecision) -> NoReturn:
        judged = asking.judged
        note = f": {decision.note}" if decision.note else ""
        who, why = "the user said no", ""
        if decision.by != "user":
            who, why = "denied", f"; why it asked: {judged.verdict.reason}{_place(judged)}"
        unchanged = ", and nothing was changed" if asking.preview and asking.preview.tried else ""
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
        """End a call whose trial did what a rule blocks: that is known only now, and no answer allows it."""
        if preview is None or preview.blocked is None:
            return
        if preview.tried is not None:
            self._bus.emit(preview.tried)
        self._refuse_blocked(replace(judged, verdict=preview.blocked))

    def _refuse_blocked(self, judged: Judged) -> NoReturn:
        verdict = judged.verdict
        self._bus.emit(judged.decided(ApprovalDecision(False, by=verdict.by)))
        sentence = f"{judged.call.name} is blocked: {verdict.reason}"
        raise Refusal("blocked", sentence, by=verdict.by, rule=_place(judged))

    def _trial_answer(self, judged: Judged, preview: Preview | None) -> ApprovalDecision | None:
        if preview is None or preview.tried is None:
            return None
        self._bus.emit(preview.tried)
        if preview.tried.outcome == "noEffect" and judged.verdict.unruled:
            return ApprovalDecision(True, note=preview.tried.sentence(), by="tool")
        settled = self.controller.settled(self.requests.asked_after(judged, preview))
        if settled is not None or not judged.verdict.unruled or self._was_taken_up(judged):
            return settled
        edits = preview.extent is not None and preview.extent.only_edits
        return _ACCEPTED_EDIT if edits and self.controller.session_mode == "acceptEdits" else None


def _place(judged: Judged) -> str:
    return f" ({judged.verdict.where})" if judged.verdict.where else ""


def mode_decision(mode: SessionMode, judged: Judged) -> ApprovalDecision | None:
    """The decision of a mode on a call with any verdict: the one place where a mode grants or refuses anything."""
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
    """The call of somebody who typed it: it is not asked about, and what is blocked stays so."""
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
    return (caller.root if isinstance(caller, CallingTool) else caller) is Caller.MODEL


def _reads(judged: Judged) -> bool:
    """Whether the call does no more than read, as declared or, for a command, as its rules know."""
    real = judged.target or judged
    changes = any(path.use.access.changes for path in real.places)
    return not changes and (real.tool.fits_read_only or judged.verdict.risk == "low")
