"""The gate: every call of every tool from every source passes here, and nothing else calls Tool.execute."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import anyio
from anyio import from_thread

from forge_cli.core.approval import Approval, ApprovalDecision, ApprovalRequest, Verdict
from forge_cli.core.bus import EventBus, new_id
from forge_cli.core.errors import BlockedError, Stale, ToolError
from forge_cli.core.events import ApprovalDecided, StatusEvent, ToolResult, ToolStarted
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.core.results import ResultValue, Text, as_result, bounded
from forge_cli.core.text import counted
from forge_cli.core.tool import Delegation, Preview, ToolCall, ToolContext, ToolOutcome
from forge_cli.core.wire import error_text
from forge_cli.engine.gate.controller import ApprovalController, Parked
from forge_cli.engine.gate.judge import Caller, Judge, Judged, Refusal
from forge_cli.record.resume import Pending

ASK_AGAIN = 3
INTERRUPTED = '{"type": "interrupted"}'
Delegate = Callable[[ToolCall, Delegation], Awaitable[str]]


class Repeated(Protocol):
    """A session that is repeated from its record, where its calls pass the gate once more."""

    def instead(self, judged: Judged) -> ToolOutcome | None:
        """The recorded outcome, to be given instead of asking and executing; None lets the call go on."""
        ...

    def compared(self, outcome: ToolOutcome) -> ToolOutcome:
        """The outcome that counts, once the call has come to one."""
        ...


@dataclass(frozen=True, kw_only=True)
class Guard(Judge):
    """One gate a worker: it judges a call, gets consent for it, and executes it."""

    controller: ApprovalController
    bus: EventBus
    interrupt: InterruptSignal
    workspace: Path
    delegate: Delegate | None = None
    repeated: Repeated | None = None

    async def call(self, call: ToolCall, caller: Caller, judged: Judged | None = None) -> ToolOutcome:
        """Take a call from its start to its one outcome, whatever happens on the way; Parked leaves it open."""
        if not self.reopened.knows(call):
            self.bus.emit(ToolStarted(call.id, call.name, call.input))
        started = time.monotonic()
        outcome = ToolOutcome.failed(call, "interrupted", INTERRUPTED)
        with self.interrupt.scope():
            try:
                outcome = await self._pass(judged or await self.judge(call, caller))
            except Refusal as refusal:
                outcome = ToolOutcome.failed(call, refusal.status, refusal.sentence, by=refusal.by)
        if self.repeated:
            outcome = self.repeated.compared(outcome)
        return self._ended(replace(outcome, duration_ms=round((time.monotonic() - started) * 1000)))

    async def runs_beside(self, call: ToolCall) -> Judged | None:
        """The verdict on a call of the model that only reads and needs nobody's word; None for any other."""
        offer = self.offers.get(call.name)
        if offer is None or not offer.tool.read_only or self.reopened.knows(call) or self.repeated:
            return None
        with self.interrupt.scope(), suppress(Refusal):
            judged = await self.judge(call, Caller.MODEL)
            return judged if judged.verdict.approval is Approval.PRE_APPROVED else None
        return None

    async def park(self, call: ToolCall) -> bool:
        """Put the request of a call on record, if it has one to make, while an earlier call waits; did it?"""
        parked = False
        with self.interrupt.scope(), suppress(Refusal, Parked):
            judged = await self.judge(call, Caller.MODEL)
            if judged.verdict.approval is Approval.ASK and not self.reopened.knows(call):
                key = self.fingerprint_of(judged)
                if self.controller.settled(key) is None:
                    parked = True
                    self.bus.emit(ToolStarted(call.id, call.name, call.input))
                    await self.controller.request_approval(self._request(judged, await self._preview(judged), key))
        return parked

    def skip(self, call: ToolCall, sentence: str) -> ToolOutcome:
        """A call that will not be taken up any more still gets its result."""
        self.bus.emit(ToolStarted(call.id, call.name, call.input))
        return self.cut_off(call, sentence)

    def refuse_redacted(self, call: ToolCall) -> ToolOutcome:
        """A call from the log that held a secret cannot be made any more: what it held is not kept."""
        sentence = f"{call.name} was not called; denied: its input held a secret, which the session does not keep"
        self.reopened.pending.pop(call.id, None)
        return self._ended(ToolOutcome.failed(call, "denied", sentence, by="rule"))

    def cut_off(self, call: ToolCall, sentence: str = INTERRUPTED) -> ToolOutcome:
        """A call that was taken up and never ended gets its result."""
        return self._ended(ToolOutcome.failed(call, "interrupted", sentence))

    def _ended(self, outcome: ToolOutcome) -> ToolOutcome:
        call = outcome.call
        self.bus.emit(ToolResult(call.id, call.name, outcome.status, outcome.value, outcome.duration_ms, outcome.error))
        return outcome

    async def _pass(self, judged: Judged) -> ToolOutcome:
        if self.repeated and (known := self.repeated.instead(judged)):
            approved = known.status not in ("denied", "blocked")
            self._decided(judged, ApprovalDecision(approved, note="taken from the record", by="memory"))
            return known
        for _ in range(ASK_AGAIN):
            self._go_on()
            stamp = await self._settle(judged)
            self._go_on()
            try:
                return await self._execute(judged, stamp)
            except Stale as stale:
                again = f"{stale}; what was approved no longer holds, so it asks again"
                judged = replace(judged, verdict=Verdict(Approval.ASK, again, by="tool"))
        raise Refusal("error", f"{judged.call.name}: what it touches keeps changing; try again later")

    def _go_on(self) -> None:
        """Code that never waits would not notice the end of the scope around it."""
        if self.interrupt.interrupted:
            raise Refusal("interrupted", INTERRUPTED)

    async def _settle(self, judged: Judged) -> str | None:
        """Get consent or refuse; returns the stamp of what was shown, where something was."""
        verdict = judged.verdict
        match verdict.approval:
            case Approval.PRE_APPROVED if not self.reopened.refused(judged.call):
                if not self._was_approved(judged.call):
                    self._decided(judged, ApprovalDecision(True, by=verdict.by))
                return None
            case Approval.BLOCKED:
                self._decided(judged, ApprovalDecision(False, by=verdict.by))
                raise Refusal("blocked", f"{judged.call.name} is blocked: {verdict.reason}", by=verdict.by)
            case Approval.PRE_APPROVED | Approval.ASK:
                return await self._consent(judged)

    async def _consent(self, judged: Judged) -> str | None:
        call, key = judged.call, self.fingerprint_of(judged)
        if self._was_approved(call):
            return None
        pending = self.reopened.pending.pop(call.id, None)
        answered = pending is not None and pending.answer is not None
        decision = None if answered else self.controller.settled(key)
        stamp, request_id = None, pending.request_id if pending else None
        if decision is None:
            preview = await self._preview(judged)
            request = self._request(judged, preview, key, request_id)
            request_id, stamp = request.request_id, request.stamp
            decision = self._answered(request, pending)
            if decision is None:
                decision = await self.controller.request_approval(request, None if request.once else key)
        self._decided(judged, decision, request_id)
        if not decision.approved:
            note = f": {decision.note}" if decision.note else ""
            whom = {"user": "the user said no", "headless": "denied", "mode": "denied"}[decision.by]
            raise Refusal("denied", f"{call.name} was not called; {whom}{note}", by=decision.by)
        return stamp

    def _was_approved(self, call: ToolCall) -> bool:
        """Whether the call goes on where it was left, which needs no decision a second time."""
        known = call.id in self.reopened.approved
        self.reopened.approved.discard(call.id)
        return known

    def _answered(self, request: ApprovalRequest, pending: Pending | None) -> ApprovalDecision | None:
        """The answer that came while nobody worked; a yes counts only if the call is still what was shown."""
        if pending is None or pending.answer is None:
            return None
        if pending.answer.approved and (pending.fingerprint, pending.stamp) != (request.fingerprint, request.stamp):
            sentence = f"{request.tool_name} is no longer what was approved, so it asks again"
            self.bus.emit(StatusEvent("warning", sentence, tool_call_id=request.tool_call_id))
            return None
        return pending.answer

    def _decided(self, judged: Judged, decision: ApprovalDecision, request_id: str | None = None) -> None:
        verdict = judged.verdict
        reason = verdict.reason if decision.note is None else f"{verdict.reason}; {decision.note}"
        self.bus.emit(
            ApprovalDecided(
                judged.call.id,
                verdict=verdict.approval.value,
                approved=decision.approved,
                by=decision.by,
                rule=verdict.rule,
                where=verdict.where,
                reason=reason,
                cached=decision.by == "memory",
                request_id=request_id,
            )
        )

    def _request(
        self, judged: Judged, preview: Preview | None, key: str, request_id: str | None = None
    ) -> ApprovalRequest:
        tool, verdict = judged.offer.tool, judged.verdict
        return ApprovalRequest(
            request_id=request_id or new_id("approval"),
            tool_call_id=judged.call.id,
            tool_name=tool.name,
            args=deepcopy(judged.args),
            description=f"{' > '.join(self.bus.path or (self.worker,))} wants to call {tool.name}",
            reason=verdict.reason,
            risk=tool.risk,
            rule=verdict.rule,
            where=verdict.where,
            preview=preview.value if preview else None,
            details=verdict.details or None,
            fingerprint=key,
            stamp=preview.stamp if preview else None,
            once=(preview is not None and preview.once) or self.may_have_run(judged) or None,
        )

    async def _preview(self, judged: Judged) -> Preview | None:
        """What the call would do; one that fails is shown as failed, never means yes, and holds for one call only."""
        tool = judged.offer.tool
        if tool.preview is None:
            return None
        try:
            preview = await tool.preview(deepcopy(judged.args), self._context(judged, None))
            return replace(preview, value=bounded(as_result(preview.value)))
        except ToolError as error:
            raise Refusal("error", str(error)) from None
        except (Exception, SystemExit) as error:  # foreign code
            return Preview(Text(f"no preview: {error_text(error)}"), once=True)

    async def _execute(self, judged: Judged, stamp: str | None) -> ToolOutcome:
        tool, call = judged.offer.tool, judged.call
        self.reopened.may_have_run.discard(self.identity(call))
        with anyio.move_on_after(tool.timeout):
            try:
                value = await tool.execute(deepcopy(judged.args), self._context(judged, stamp))
                return ToolOutcome(call, "success", _kept(value))
            except (Stale, Parked, Refusal):
                raise
            except BlockedError as error:
                return ToolOutcome.failed(call, "blocked", str(error), by="tool")
            except ToolError as error:
                return _failed(call, error)
            except asyncio.CancelledError as error:
                if _cancelling():
                    raise
                return ToolOutcome.failed(call, "error", error_text(error))
            except (Exception, SystemExit, BaseExceptionGroup) as error:  # foreign code: a failure is a result too
                return ToolOutcome.failed(call, "error", error_text(error))
        return ToolOutcome.failed(
            call, "timeout", f"{call.name} was stopped after {counted(tool.timeout or 0, 'second')}"
        )

    def _context(self, judged: Judged, stamp: str | None) -> ToolContext:
        return ToolContext(
            call_id=judged.call.id,
            tool=judged.offer.tool.name,
            worker=self.worker,
            workspace=self.workspace,
            sandbox=self.sandbox,
            interrupt=self.interrupt,
            paths=judged.paths,
            stamp=stamp,
            report=partial(self._progress, judged.call.id, threading.get_ident()),
            delegation=partial(self.delegate, judged.call) if self.delegate else None,
        )

    def _progress(self, call_id: str, home: int, message: str, fraction: float | None) -> None:
        event = StatusEvent("info", message, tool_call_id=call_id, progress=fraction)
        if threading.get_ident() == home:
            self.bus.emit(event)
        else:
            from_thread.run_sync(self.bus.emit, event)


def _cancelling() -> bool:
    """Is it we who cancel, and not the tool that let go of a task of its own?"""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _kept(value: Any) -> ResultValue:
    return bounded(as_result(value))


def _failed(call: ToolCall, error: ToolError) -> ToolOutcome:
    sentence = str(error) or f"{call.name} failed without a word"
    outcome = ToolOutcome.failed(call, "error", sentence)
    return outcome if error.value is None else replace(outcome, value=_kept(error.value))
