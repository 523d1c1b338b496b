"""Consent to a judged call: remembered, answered while the session was parked, or asked for with a preview."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, assert_never

from forge_cli.core.approval import Approval, ApprovalDecision, ApprovalRequest, DecidedBy, Needs
from forge_cli.core.bounds import fault_text
from forge_cli.core.bus import EventBus, new_id
from forge_cli.core.calls import copy_args
from forge_cli.core.context import ToolContext
from forge_cli.core.errors import ToolError
from forge_cli.core.events import ApprovalDecided, StatusEvent
from forge_cli.core.results import Text, as_result, bounded
from forge_cli.core.tool import TIME_LIMIT, Args, Preview
from forge_cli.core.wire import jsonable
from forge_cli.engine.gate.controller import ApprovalController
from forge_cli.engine.gate.grants import AskedCall
from forge_cli.engine.gate.judge import Caller, CallingTool, Judge, Judged, Refusal
from forge_cli.engine.gate.performing import perform_within
from forge_cli.engine.gate.reopened import ReopenedCalls
from forge_cli.schema.tool import Tool

if TYPE_CHECKING:
    from forge_cli.engine.hooks.hooks import Hooks
    from forge_cli.record.resume import Pending


AskFor = Callable[[ApprovalRequest], Awaitable[ApprovalDecision]]
NewContext = Callable[[], ToolContext]
"""Makes what a preview may know of its call; most calls need none."""


@dataclass(frozen=True, kw_only=True)
class Consent:
    """Gets consent for the calls of one worker, and writes every decision down."""

    judge: Judge
    controller: ApprovalController
    bus: EventBus
    reopened: ReopenedCalls
    waited: dict[str, float]
    """Seconds for which a call, by its id, has waited for an answer."""
    hooks: Hooks | None = None

    async def settle(self, judged: Judged, new_context: NewContext) -> str | None:
        """Get consent or refuse; returns the stamp of what was shown, where something was."""
        call, verdict = judged.call, judged.verdict
        match verdict.approval:
            case Approval.PRE_APPROVED if not self.reopened.was_refused(call):
                if not self.reopened.take_approval(call):
                    self.bus.emit(judged.decided(ApprovalDecision(True, by=verdict.by)))
                return None
            case Approval.BLOCKED:
                self.bus.emit(judged.decided(ApprovalDecision(False, by=verdict.by)))
                sentence = f"{call.name} is blocked: {verdict.reason}"
                raise Refusal("blocked", sentence, by=verdict.by, rule=_place(judged))
            case Approval.PRE_APPROVED | Approval.ASK:
                return None if self.reopened.take_approval(call) else await self._ask(judged, new_context)

    async def park(self, judged: Judged, new_context: NewContext) -> None:
        """Put the request of a call on record, while an earlier call waits."""
        request = self._request(judged, await self.preview(judged, new_context))
        await self._get_answer(judged, request, partial(self.controller.request_approval, needs=self.needs(judged)))

    async def _get_answer(self, judged: Judged, request: ApprovalRequest, ask: AskFor) -> ApprovalDecision:
        """The answer to a request; hooks tell of one that somebody can answer, now or later."""
        if self.hooks is None or not (self.controller.attended or self.controller.parks):
            return await ask(request)
        return await self.hooks.while_asked(judged, request, partial(ask, request))

    async def _ask(self, judged: Judged, new_context: NewContext) -> str | None:
        pending = self.reopened.take_pending(judged.call)
        answered = pending is not None and pending.answer is not None
        key = judged.fingerprint
        needs = self.needs(judged)
        decision = None if answered else self.controller.settled(AskedCall(key, needs))
        stamp, request_id = None, pending.request_id if pending else None
        if decision is None:
            preview = await self.preview(judged, new_context)
            request = self._request(judged, preview, request_id)
            request_id, stamp = request.request_id, request.stamp
            decision = self._parked_answer(request, pending)
            if decision is None:
                decision = self._tried(judged, preview)
            if decision is None:
                may_park, since = judged.call.parent is None, time.monotonic()
                fingerprint, changed = None if request.once else key, preview.changed if preview else None
                ask = partial(self.controller.request_approval, fingerprint=fingerprint, needs=needs, may_park=may_park)
                ask = partial(ask, changed=changed)
                decision = await self._get_answer(judged, request, ask)
                self.waited[judged.call.id] = self.waited.get(judged.call.id, 0.0) + time.monotonic() - since
        self.bus.emit(judged.decided(decision, request_id))
        if not decision.approved:
            note = f": {decision.note}" if decision.note else ""
            who = _who_denied(decision.by)
            sentence, rule = f"{judged.call.name} was not called; {who}{note}", ""
            if decision.by != "user":
                rule = f"; why it asked: {judged.verdict.reason}{_place(judged)}"
            raise Refusal("denied", sentence, by=decision.by, rule=rule)
        return stamp

    def _parked_answer(self, request: ApprovalRequest, pending: Pending | None) -> ApprovalDecision | None:
        """The answer that came while the session was parked; a yes counts only if the call is still what was shown."""
        if pending is None or pending.answer is None:
            return None
        if pending.answer.approved and (pending.fingerprint, pending.stamp) != (request.fingerprint, request.stamp):
            sentence = f"{request.tool_name} is no longer what was approved, so it asks again"
            self.bus.emit(StatusEvent("warning", sentence, tool_call_id=request.tool_call_id))
            return None
        return replace(pending.answer, grant=None)

    def _tried(self, judged: Judged, preview: Preview | None) -> ApprovalDecision | None:
        """The answer that a trial gives: a yes where it had no effect, or none but those that were allowed before."""
        if preview is None or preview.tried is None:
            return None
        self.bus.emit(preview.tried)
        if preview.tried.outcome == "noEffect" and judged.verdict.unruled:
            return ApprovalDecision(True, note=preview.tried.sentence(), by="tool")
        return self.controller.settled(AskedCall(None, changed=preview.changed))

    def needs(self, judged: Judged) -> Needs:
        """The rules that would allow a call; none for one that may have had its effect already."""
        return () if self.may_have_run(judged) else judged.verdict.grants

    def _request(self, judged: Judged, preview: Preview | None, request_id: str | None = None) -> ApprovalRequest:
        tool, verdict = judged.tool, judged.verdict
        preview = preview or Preview(None)
        once = preview.once or self.may_have_run(judged)
        key = judged.fingerprint
        offers = self.controller.offers(AskedCall(None if once else key, self.needs(judged), preview.changed))
        return ApprovalRequest(
            request_id=request_id or new_id("approval"),
            tool_call_id=judged.call.id,
            tool_name=tool.name,
            args=copy_args(judged.args),
            description=f"{self._who(judged)} call {tool.name}",
            reason=verdict.reason,
            risk=verdict.risk or tool.risk,
            rule=verdict.rule,
            where=verdict.where,
            preview=preview.value,
            details=verdict.details or None,
            fingerprint=key,
            stamp=preview.stamp,
            caller=judged.calling_tool,
            once=once or None,
            parts=verdict.parts if len(verdict.parts) > 1 else None,
            runs=preview.runs,
            recap=preview.recap,
            previewed=preview.shows or None,
            defaults=tuple(_default_args(tool, judged.args)) or None,
            distribution=tool.author_of(preview.value) if preview.value is not None else None,
            offers=offers or None,
            policy_files=self.judge.policy_files if any(offer.rules for offer in offers) else None,
        )

    def _who(self, judged: Judged) -> str:
        workers = " > ".join(self.bus.path or (self.judge.worker,))
        caller = judged.caller
        if caller is Caller.PERSON:
            return "you want to"
        return f"{f'the tool {caller.name} of {workers}' if isinstance(caller, CallingTool) else workers} wants to"

    def may_have_run(self, judged: Judged) -> bool:
        """Could an earlier call like this one have had its effect, although the session was cut off then?"""
        return not judged.tool.read_only and self.reopened.may_have_run(judged.call)

    async def preview(self, judged: Judged, new_context: NewContext) -> Preview | None:
        """What the call would do; one that fails is shown as failed, never means yes, and holds for one call only."""
        if judged.tool.preview is None:
            return None
        try:
            shown = partial(judged.tool.preview, copy_args(judged.args), new_context())
            seconds = max(TIME_LIMIT, judged.tool.timeout or 0)
            preview: Preview = await perform_within(seconds, f"the preview of {judged.tool.name}", shown)
            kept = _bounded_preview(preview)
            may_be_granted = judged.verdict.unruled and not self.may_have_run(judged)
            return kept if may_be_granted else replace(kept, changed=None)
        except ToolError as error:
            raise Refusal("error", str(error)) from None
        except Exception as error:  # third-party code
            return Preview(Text(f"no preview: {fault_text(error)}"), once=True)


def _bounded_preview(preview: Preview) -> Preview:
    """A preview small enough to keep; one that was cut does not show any arg whole."""
    if preview.value is None:
        return preview
    whole = as_result(preview.value)
    value = bounded(whole)
    return replace(preview, value=value, shows=preview.shows if value == whole else ())


def _default_args(tool: Tool, args: Args) -> Iterator[str]:
    """The args that are as the schema says they are when nobody gives them; null is what has no other default."""
    properties = tool.schema.json_schema.get("properties", {})
    for name, value in args.items():
        known = properties.get(name)
        if isinstance(known, dict) and _same(value, known.get("default")):
            yield name


def _same(value: object, default: object) -> bool:
    """Are they equal as JSON, where true is not 1?"""
    return json.dumps(jsonable(value), sort_keys=True) == json.dumps(jsonable(default), sort_keys=True)


def settled_request(request: ApprovalRequest, decision: ApprovalDecision) -> ApprovalDecided:
    """How a request was settled that is not one of a call."""
    return ApprovalDecided(
        request.tool_call_id,
        verdict=Approval.ASK.value,
        approved=decision.approved,
        by=decision.by,
        rule=request.rule,
        where=request.where,
        reason=request.reason if decision.note is None else f"{request.reason}; {decision.note}",
        cached=decision.by == "memory",
        request_id=request.request_id,
        grant=decision.grant,
        via=decision.via,
        fingerprint=request.fingerprint,
    )


def _place(judged: Judged) -> str:
    return f" ({judged.verdict.where})" if judged.verdict.where else ""


def _who_denied(by: DecidedBy) -> str:
    match by:
        case "user":
            return "the user said no"
        case "headless" | "mode" | "rule" | "tool" | "memory":
            return "denied"
        case _:
            assert_never(by)
