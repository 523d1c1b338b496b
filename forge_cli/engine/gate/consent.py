"""Consented, the third step of a call: remembered, given while the session was parked, by its mode, or by a person."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.approval import (
    MODE_TITLES,
    Approval,
    ApprovalDecision,
    ApprovalRequest,
    Needs,
    SessionMode,
    are_edits,
    without_kept,
)
from forge_cli.core.bounds import fault_text
from forge_cli.core.bus import EventBus, new_id
from forge_cli.core.calls import ToolOutcome
from forge_cli.core.errors import ToolError
from forge_cli.core.events import StatusEvent
from forge_cli.core.results import TRIAL_LIMIT, VALUE_LIMIT, Text, as_result, bounded
from forge_cli.core.tool import TIME_LIMIT, Args, Preview
from forge_cli.core.wire import jsonable
from forge_cli.engine.gate.execution import perform_within
from forge_cli.engine.gate.steps import (
    AskedCall,
    Caller,
    CallingTool,
    Consented,
    Judged,
    Refusal,
    Requested,
    ShownTrial,
)
from forge_cli.schema.tool import Tool

if TYPE_CHECKING:
    from forge_cli.core.interrupt import InterruptSignal
    from forge_cli.core.trial import CommandTried, TrialExtent
    from forge_cli.engine.gate.controller import ApprovalController
    from forge_cli.engine.gate.judge import Judge
    from forge_cli.record.resume import Pending

_PLANNING = (
    "this conversation is in plan mode (read only), and the call does more than read; say what you would do, and the "
    "person leaves the mode by Shift+Tab or /mode ask"
)

_ACCEPTED_EDIT = ApprovalDecision(True, note="the person accepts edits", by="mode", via=MODE_TITLES["acceptEdits"])


class Asking(Struct):
    """A call on its way to an answer, with what was made for that so far."""

    requested: Requested
    judged: Judged
    pending: Pending | None = None
    """Its request, if an earlier process put one on record."""
    preview: Preview | None = None
    request: ApprovalRequest | None = None
    request_id: str | None = None
    """The request that the decision belongs to, once there is one."""


class Consent:
    """Gets consent for the calls of one worker, and writes every decision down."""

    def __init__(self, judge: Judge, controller: ApprovalController, interrupt: InterruptSignal) -> None:
        self.controller = controller
        self._judge = judge
        self._bus = controller.bus
        self._interrupt = interrupt

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
        if decision is None or (decision.approved and self._was_taken_up(judged)):  # it was asked about before
            return False
        self._bus.emit(judged.decided(decision))
        if not decision.approved:
            raise Refusal("blocked", f"{judged.call.name} is blocked: {decision.note}", by=decision.by)
        return True

    def take_recorded(self, judged: Judged, known: ToolOutcome) -> ToolOutcome:
        """Decide as the record does, in a session that is repeated from it."""
        approved = known.status not in ("denied", "blocked")
        self._bus.emit(judged.decided(ApprovalDecision(approved, note="taken from the record", by="memory")))
        return known

    def must_ask(self, judged: Judged) -> bool:
        """Is there a request to make, which nothing settles by itself?"""
        asked = AskedCall(judged.fingerprint, self._needs(judged))
        return judged.verdict.approval is Approval.ASK and self.controller.settled(asked) is None

    async def park(self, judged: Judged) -> None:
        """Put the request of a call on record, while an earlier call waits."""
        preview = await self.preview(judged)
        request = self._request(judged, preview)
        await self._put(judged, request, AskedCall(request.fingerprint, self._needs(judged), ShownTrial.of(preview)))

    async def _ask(self, requested: Requested, judged: Judged) -> Consented:
        """Take the first answer that there is, and put it on record."""
        pending = self._judge.reopened.take_pending(judged.call) if self._judge.reopened else None
        asking = Asking(requested, judged, pending, request_id=pending.request_id if pending else None)
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
        applies = preview is not None and stamp is not None and _is_complete(preview.extent)
        return Consented(judged, stamp, preview.tried if preview and applies else None)

    async def _remembered(self, asking: Asking) -> ApprovalDecision | None:
        """Return what was decided of calls like this one, unless the call itself was answered while it waited."""
        if asking.pending is not None and asking.pending.answer is not None:
            return None
        judged = asking.judged
        return self.controller.settled(AskedCall(judged.fingerprint, self._needs(judged)))

    async def _parked(self, asking: Asking) -> ApprovalDecision | None:
        """Return the answer given while the session was parked; a yes counts only for what was shown then."""
        request, pending = await self._shown(asking), asking.pending
        if pending is None or pending.answer is None:
            return None
        if pending.answer.approved and (pending.fingerprint, pending.stamp) != (request.fingerprint, request.stamp):
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
        """Ask about a rule whose answer is kept, if one would allow the call: a yes lets it go on.

        A trial that the rule lets apply is applied, and not done again. After any other answer the call asks by itself.
        """
        from forge_cli.engine.gate.kept import KeptQuestion

        judged, preview = asking.judged, asking.preview
        question = KeptQuestion(self._judge.worker, self.controller)
        rule = None if self._was_taken_up(judged) else question.rule_for(judged)
        if rule is None:
            return None
        since = time.monotonic()
        approved = await question.ask(judged, rule, preview.runs if preview else None)
        asking.requested.waited += time.monotonic() - since
        extent = preview.extent if preview and preview.tried else None
        if approved and extent and extent.only_edits:
            asking.request_id = None
            return ApprovalDecision(True, note=f"{rule.title}: allowed from now on")
        again = (
            await self._judge.decide(judged.call, judged.caller) if approved and not _is_complete(extent) else judged
        )
        if again.verdict.approval is Approval.PRE_APPROVED:
            asking.judged = again
            asking.preview = asking.request = asking.request_id = None
            return ApprovalDecision(True, by=again.verdict.by)
        verdict = replace(judged.verdict, grants=without_kept(judged.verdict.grants))
        asking.judged = replace(judged, verdict=verdict)
        asking.request = self._request(asking.judged, preview, asking.request_id)
        return None

    async def _person(self, asking: Asking) -> ApprovalDecision:
        """Put the request to a person."""
        request = await self._shown(asking)
        judged = asking.judged
        asked = AskedCall(judged.fingerprint, self._needs(judged), ShownTrial.of(asking.preview))
        since = time.monotonic()
        decision = await self._put(judged, request, asked)
        asking.requested.waited += time.monotonic() - since
        return decision

    async def _shown(self, asking: Asking) -> ApprovalRequest:
        """Make the preview of a call and its request once; a preview that a rule blocks ends the call."""
        if asking.request is None:
            asking.preview = await self.preview(asking.judged)
            self._check_trial(asking.judged, asking.preview)
            asking.request = self._request(asking.judged, asking.preview, asking.request_id)
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

    async def _put(self, judged: Judged, request: ApprovalRequest, asked: AskedCall) -> ApprovalDecision:
        return await self.controller.request_approval(
            request,
            asked.fingerprint,
            needs=asked.needs,
            trial=asked.trial,
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
        once = preview.once or self._judge.may_have_run(judged)
        key = None if once else judged.fingerprint
        settled = self.controller.settled(AskedCall(key, self._needs(judged), ShownTrial.of(preview)))
        if settled is not None or not judged.verdict.unruled or self._was_taken_up(judged):
            return settled
        edits = preview.extent is not None and preview.extent.only_edits
        return _ACCEPTED_EDIT if edits and self.controller.session_mode == "acceptEdits" else None

    def _needs(self, judged: Judged) -> Needs:
        """The rules that would allow a call; none for one that may have had its effect already."""
        return () if self._judge.may_have_run(judged) else judged.verdict.grants

    def _request(self, judged: Judged, preview: Preview | None, request_id: str | None = None) -> ApprovalRequest:
        tool, verdict = judged.tool, judged.verdict
        preview = preview or Preview(None)
        once = preview.once or self._judge.may_have_run(judged)
        key = judged.fingerprint
        asked = AskedCall(None if once else key, self._needs(judged), ShownTrial.of(preview))
        offers = self.controller.offers(asked)
        nothing_left = self.controller.attended and asked.trial is not None and not offers
        return ApprovalRequest(
            request_id=request_id or new_id("approval"),
            tool_call_id=judged.call.id,
            tool_name=tool.name,
            args=deepcopy(judged.args),
            description=f"{self._who(judged)} call {tool.name}",
            reason=verdict.reason,
            risk=preview.risk or verdict.risk or tool.risk,
            rule=verdict.rule,
            where=verdict.where,
            preview=preview.value,
            details=verdict.details or None,
            fingerprint=key,
            stamp=preview.stamp,
            caller=judged.calling_tool,
            once=once or nothing_left or None,
            parts=verdict.parts if len(verdict.parts) > 1 else None,
            runs=preview.runs,
            recap=preview.recap,
            folded=preview.folded or None,
            previewed=preview.shows or None,
            defaults=tuple(_default_args(tool, judged.args)) or None,
            distribution=tool.author_of(preview.value) if preview.value is not None else None,
            offers=offers or None,
            policy_files=self._judge.worker.policy_files if any(offer.rules for offer in offers) else None,
        )

    def _who(self, judged: Judged) -> str:
        workers = " > ".join(self._bus.path or (self._judge.worker.name,))
        caller = judged.caller
        if caller is Caller.PERSON:
            return "you want to"
        if caller is Caller.PROGRAM:
            return f"the program that runs {workers} wants to"
        return f"{f'the tool {caller.name} of {workers}' if isinstance(caller, CallingTool) else workers} wants to"

    async def preview(self, judged: Judged) -> Preview | None:
        """A preview of the call; one that fails is shown as failed, never means yes, and holds for one call only."""
        if judged.tool.preview is None:
            return None
        try:
            from forge_cli.engine.gate.contexts import preview_context

            context = preview_context(self._judge, judged, self._bus, self._interrupt)
            shown = partial(judged.tool.preview, deepcopy(judged.args), context)
            seconds = max(TIME_LIMIT, judged.tool.timeout or 0)
            preview: Preview = await perform_within(seconds, f"the preview of {judged.tool.name}", shown)
            kept = _bounded_preview(preview)
            may_be_granted = judged.verdict.unruled and not self._judge.may_have_run(judged)
            return kept if may_be_granted else dataclasses.replace(kept, changed=None)
        except ToolError as error:
            raise Refusal("error", str(error)) from None
        except Exception as error:  # third-party code
            return Preview(Text(f"no preview: {fault_text(error)}"), once=True)


def _is_complete(extent: TrialExtent | None) -> bool:
    """Whether a trial showed everything that the call would do."""
    return extent is not None and extent.complete


def _bounded_preview(preview: Preview) -> Preview:
    """A preview small enough to keep; one that was cut does not show any arg whole."""
    if preview.value is None:
        return preview
    whole = as_result(preview.value)
    value = bounded(whole, TRIAL_LIMIT if preview.tried else VALUE_LIMIT)
    return dataclasses.replace(preview, value=value, shows=preview.shows if value == whole else ())


def _default_args(tool: Tool, args: Args) -> Iterator[str]:
    """The args that are as the schema says they are when they are not given; null is what has no other default."""
    properties = tool.schema.json_schema.get("properties", {})
    for name, value in args.items():
        known = properties.get(name)
        if isinstance(known, dict) and _same(value, known.get("default")):
            yield name


def _same(value: object, default: object) -> bool:
    """Are they equal as JSON, where true is not 1?"""
    return json.dumps(jsonable(value), sort_keys=True) == json.dumps(jsonable(default), sort_keys=True)


def tell_applied(bus: EventBus, tried: CommandTried, error: BaseException | None) -> None:
    """Put on record that the zones have what a trial changed; a command that failed gives a value, too."""
    if tried.changed and (error is None or (isinstance(error, ToolError) and error.value is not None)):
        bus.emit(replace(tried, applied=True))


def _place(judged: Judged) -> str:
    return f" ({judged.verdict.where})" if judged.verdict.where else ""


def mode_decision(mode: SessionMode, judged: Judged) -> ApprovalDecision | None:
    """The decision of a mode on a call with any verdict: the one place where a mode grants or refuses anything."""
    approval = judged.verdict.approval
    match mode:
        case "readOnly" if approval is not Approval.BLOCKED and _is_of_model(judged) and not _reads(judged):
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
