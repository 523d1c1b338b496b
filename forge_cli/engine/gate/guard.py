"""The gate: every call of every tool from every source passes here, and nothing else calls Tool.execute."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

from forge_cli.core.approval import Approval, ApprovalDecision, Verdict
from forge_cli.core.bounds import CALL_LIMIT, call_within, run_in_thread
from forge_cli.core.calls import Denial, OutcomeStatus, ToolCall, ToolOutcome, copy_args, within_depth
from forge_cli.core.context import Executing
from forge_cli.core.errors import BlockedError, Stale, ToolError, ToolTimeout
from forge_cli.core.events import StatusEvent, ToolResult, ToolStarted
from forge_cli.core.interrupt import Parked
from forge_cli.core.phrases import INTERRUPTED_CALL
from forge_cli.core.results import ResultValue, as_result, bounded, is_misfit, is_small
from forge_cli.core.text import counted
from forge_cli.core.thirdparty import only_looks
from forge_cli.core.wire import JsonObject, error_text
from forge_cli.engine import gate
from forge_cli.engine.gate.judge import AnyCaller, Caller, CallingTool, Judge, Judged, Refusal
from forge_cli.engine.gate.performing import (
    TOOL,
    CallClock,
    CallUnderway,
    LoopTurns,
    Performed,
    perform,
    perform_at_once,
)
from forge_cli.schema.tool_fields import FunctionCall

if TYPE_CHECKING:
    from forge_cli.core.bus import EventBus
    from forge_cli.core.context import Delegation, ToolContext
    from forge_cli.core.interrupt import InterruptSignal
    from forge_cli.core.tool import Preview
    from forge_cli.engine.gate.consent import Consent
    from forge_cli.engine.gate.controller import ApprovalController
    from forge_cli.engine.gate.offer import Offer
    from forge_cli.engine.gate.reopened import ReopenedCalls
    from forge_cli.engine.hooks.hooks import Hooks
    from forge_cli.sandbox.files.sandbox import Sandbox

ASK_AGAIN = 3
Delegate = Callable[[ToolCall, "Delegation"], Awaitable[str]]


class Repeated(Protocol):
    """A session that is repeated from its record, where its calls pass the gate once more."""

    def instead(self, judged: Judged) -> ToolOutcome | None:
        """The recorded outcome, to be given instead of asking and executing; None lets the call continue."""
        ...

    def compared(self, outcome: ToolOutcome) -> ToolOutcome:
        """The outcome that counts, once the call has come to one."""
        ...


@dataclass(frozen=True, kw_only=True)
class Guard:
    """One gate a worker: it has a call judged, gets consent for it, executes it, and gives it its one outcome."""

    judge: Judge
    controller: ApprovalController
    bus: EventBus
    interrupt: InterruptSignal
    delegate: Delegate | None = None
    before_result: Callable[[Any], Awaitable[None]] | None = None
    """Gets a result as it goes on record, just before it does."""
    keep_consent: Callable[[], Awaitable[None]] | None = None
    """Waits until consent is where nothing loses it, for a record that does not do so by itself."""
    repeated: Repeated | None = None
    reopened: ReopenedCalls | None = None
    """What a resumed session knows of the calls before it."""
    waited: dict[str, float] = field(default_factory=dict)
    """Seconds for which a call, by its id, has waited for an answer."""
    network_denials: list[Denial] = field(default_factory=list)
    """Connections of commands that were denied since a call last took note of them."""
    hooks: Hooks | None = None
    """Those of the person, where there are any."""
    ask_person: Callable[[str, str, JsonObject], Awaitable[JsonObject | None]] | None = None
    """Puts a form to the person: who asks, what, and the schema of the answer."""

    @property
    def offers(self) -> Mapping[str, Offer]:
        return self.judge.offers

    @property
    def sandbox(self) -> Sandbox:
        return self.judge.sandbox

    @cached_property
    def _consent(self) -> Consent:
        return gate.consent.Consent(
            judge=self.judge,
            controller=self.controller,
            bus=self.bus,
            reopened=self.reopened or gate.reopened.ReopenedCalls(),
            waited=self.waited,
            hooks=self.hooks,
        )

    @cached_property
    def _turns(self) -> LoopTurns:
        return LoopTurns()

    async def call(
        self, call: ToolCall, caller: AnyCaller, judged: Judged | None = None, *, own_command: bool = False
    ) -> ToolOutcome:
        """Take a call from its start to its one outcome, whatever happens on the way; Parked leaves it open.

        An ``own_command`` was typed by the person, so that nobody is asked.
        """
        call = within_depth(call)
        if not self.is_reopened(call):
            self._start(call)
        started = time.monotonic()
        underway = CallUnderway(call, caller)
        outcome = None
        with self.interrupt.scope():
            try:
                judged = judged or await self._decide(call, caller)
                judged = gate.modes.typed_by_person(judged) if own_command else judged
                outcome = await self._pass(judged, underway)
            except Refusal as refusal:
                outcome = ToolOutcome.failed(call, refusal.status, refusal.sentence, by=refusal.by, rule=refusal.rule)
        outcome = outcome or ToolOutcome.failed(call, "interrupted", INTERRUPTED_CALL)
        if outcome.status == "interrupted":
            outcome = _with_kept(outcome, underway.clock)
        if denied := (*underway.denials, *self.network_denials):
            self.network_denials.clear()
            outcome = replace(outcome, denials=denied)
        if self.repeated:
            outcome = self.repeated.compared(outcome)
        else:
            self._tell_tool(outcome)
        took = time.monotonic() - started - self.waited.pop(call.id, 0.0)
        outcome = outcome.lasting(round(took * 1000))
        if self.before_result and not is_small(outcome.value):
            await self.before_result(outcome.value.wire())
        self._finish(outcome)
        if self.hooks:
            with self.interrupt.scope():
                await self.hooks.after(outcome, judged)
        return outcome

    async def _decide(self, call: ToolCall, caller: AnyCaller) -> Judged:
        """The verdict that counts: with what the hooks of the person say of the call."""
        judged = await self.verdict(call, caller)
        asks_hooks = self.hooks is not None and judged.verdict.approval is not Approval.BLOCKED
        return await self.hooks.before(judged) if self.hooks and asks_hooks else judged

    def _tell_tool(self, outcome: ToolOutcome) -> None:
        offer = self.offers.get(outcome.call.name)
        if offer and offer.tool.on_outcome:
            call, told = outcome.call, offer.tool.on_outcome
            try:
                call_within(CALL_LIMIT, f"{TOOL}{call.name}", told, copy_args(call.args), outcome.status)
            except Exception as error:  # third-party code, and nothing depends on it
                gate.debugging.tell_traceback(error)

    async def call_inner(self, call: ToolCall, caller: CallingTool) -> ToolOutcome:
        """Take a call of a tool; it cannot wait on disk, since what its tool has done so far would be lost."""
        deepest = gate.contexts.DEEPEST
        if caller.depth > deepest:
            return self.postpone(call, f"{call.name} was not called: tools call tools {deepest} deep at most")
        try:
            return await self.call(call, caller)
        except Parked as parked:
            return self._finish(ToolOutcome.failed(call, "denied", f"{call.name} ended: {parked}", by="headless"))
        except asyncio.CancelledError:
            self.cut_off(call)
            raise

    async def verdict(self, call: ToolCall, caller: AnyCaller) -> Judged:
        """The call judged; one that may have run before the session was cut off asks, whatever the policy says."""
        judged = await self.judge.judge(call, caller)
        allowed = judged.verdict.approval is Approval.PRE_APPROVED
        if allowed and self.reopened is not None and self._consent.may_have_run(judged):
            reason = f"{call.name} was cut off with these arguments: it may have run"
            return replace(judged, verdict=Verdict(Approval.ASK, reason, by="tool"))
        return judged

    async def preview(self, judged: Judged) -> Preview | None:
        """What a call would do, as somebody who is asked about it would see."""
        return await self._consent.preview(judged, partial(self._context, judged, changes=False))

    async def runs_beside(self, call: ToolCall) -> Judged | None:
        """The verdict on a call of the model that only reads and needs no consent; None for any other."""
        offer = self.offers.get(call.name)
        if offer is None or not offer.tool.read_only or self.is_reopened(call) or self.repeated:
            return None
        with self.interrupt.scope(), suppress(Refusal):
            judged = await self._decide(call, Caller.MODEL)
            return judged if judged.verdict.approval is Approval.PRE_APPROVED else None
        return None

    async def park(self, call: ToolCall) -> bool:
        """Put the request of a call on record, if it has one to make, while an earlier call waits; did it?"""
        parked = False
        with self.interrupt.scope(), suppress(Refusal, Parked):
            judged = await self._decide(call, Caller.MODEL)
            asks = judged.verdict.approval is Approval.ASK and not self.is_reopened(call)
            key = judged.fingerprint
            if asks and self.controller.settled(gate.grants.AskedCall(key, self._consent.needs(judged))) is None:
                parked = True
                self._start(call)
                await self._consent.park(judged, partial(self._context, judged, changes=False))
        return parked

    def postpone(self, call: ToolCall, sentence: str) -> ToolOutcome:
        """A call that is not made, but may be made again, gets its result."""
        self._start(call)
        return self._finish(ToolOutcome.failed(call, "error", sentence))

    def skip(self, call: ToolCall, sentence: str) -> ToolOutcome:
        """A call that will not be taken up any more still gets its result."""
        self._start(call)
        return self.cut_off(call, sentence)

    def refuse_redacted(self, call: ToolCall) -> ToolOutcome:
        """A call from the log that held a secret cannot be made any more: what it held is not kept."""
        sentence = f"{call.name} was not called; denied: its input held a secret, which the session does not keep"
        if self.reopened:
            self.reopened.take_pending(call)
        return self._finish(ToolOutcome.failed(call, "denied", sentence, by="rule"))

    def cut_off(self, call: ToolCall, sentence: str = INTERRUPTED_CALL) -> ToolOutcome:
        """A call that was taken up and never ended gets its result."""
        return self._finish(ToolOutcome.failed(call, "interrupted", sentence))

    def _start(self, call: ToolCall) -> None:
        self.bus.emit(ToolStarted(call.id, call.name, call.args, call.parent))

    def _finish(self, outcome: ToolOutcome) -> ToolOutcome:
        call, offer = outcome.call, self.offers.get(outcome.call.name)
        self.bus.emit(
            ToolResult(
                call.id,
                call.name,
                outcome.status,
                outcome.value,
                outcome.duration_ms,
                outcome.error,
                parent_call_id=call.parent,
                distribution=offer.tool.author_of(outcome.value) if offer else None,
                traceback=outcome.traceback,
            )
        )
        return outcome

    def is_reopened(self, call: ToolCall) -> bool:
        """Was it taken up before the session was resumed?"""
        return self.reopened is not None and self.reopened.knows(call)

    async def _pass(self, judged: Judged, underway: CallUnderway) -> ToolOutcome:
        if self.repeated and (known := self.repeated.instead(judged)):
            approved = known.status not in ("denied", "blocked")
            self.bus.emit(judged.decided(ApprovalDecision(approved, note="taken from the record", by="memory")))
            return known
        for _ in range(ASK_AGAIN):
            self._check_interrupt()
            stamp = await self._settle(judged)
            if self.keep_consent:
                await self.keep_consent()
            self._check_interrupt()
            try:
                return await self._execute(judged, stamp, underway)
            except Stale as stale:
                judged = await self._judge_again(judged, stale)
        raise Refusal("error", f"{judged.call.name}: what it touches keeps changing; try again later")

    async def _settle(self, judged: Judged) -> str | None:
        """Get consent, of which a call that the policy allows needs no more; returns the stamp of what was shown."""
        verdict = judged.verdict
        if self.controller.session_mode != "ask" and gate.modes.settles(self, judged):
            return None
        if verdict.approval is Approval.PRE_APPROVED and self.reopened is None:
            self.bus.emit(judged.decided(ApprovalDecision(True, by=verdict.by)))
            return None
        return await self._consent.settle(judged, partial(self._context, judged, changes=False))

    async def _judge_again(self, judged: Judged, stale: Stale) -> Judged:
        """What was approved no longer holds: the call is judged as things are now, and asks at least."""
        again = await self.judge.judge(judged.call, judged.caller)
        if again.verdict.approval is Approval.BLOCKED:
            return again
        reason = f"{stale}; what was approved no longer holds, so it asks again"
        return replace(again, verdict=Verdict(Approval.ASK, reason, by="tool"))

    def _check_interrupt(self) -> None:
        """Code that never waits would not notice the end of the scope around it."""
        if self.interrupt.interrupted:
            raise Refusal("interrupted", INTERRUPTED_CALL)

    async def _execute(self, judged: Judged, stamp: str | None, underway: CallUnderway) -> ToolOutcome:
        tool, call = judged.tool, judged.call
        if self.reopened:
            self.reopened.start(call)
        clock = underway.clock = CallClock(tool.timeout)
        with Executing(call.id):
            done = await self._perform(judged, clock, partial(self._context, judged, stamp, underway=underway))
        if done.late:
            self._check_interrupt()
            sentence = f"{call.name} was stopped after {counted(clock.limit, 'second')}"
            return _with_kept(ToolOutcome.failed(call, "timeout", sentence), clock)
        match done.error:
            case None:
                return self._success(call, done.value)
            case Stale() | Parked() | Refusal() as error:
                raise error
            case BlockedError() as error:
                return ToolOutcome.failed(call, "blocked", str(error), by="tool")
            case ToolError() as error:
                return _failure(call, error)
            case error:
                trace, place = gate.debugging.tell_traceback(error), gate.debugging.place_of(error)
                sentence = f"{error_text(error)}{f' ({place})' if place else ''}"
                return replace(ToolOutcome.failed(call, "error", sentence), traceback=trace)

    async def _perform(self, judged: Judged, clock: CallClock, new_context: Callable[[], ToolContext]) -> Performed:
        """Let the tool do its work: at once, where it says that it need not wait, in a thread, or in a task."""
        what, execute = f"{TOOL}{judged.call.name}", judged.tool.execute
        if not isinstance(execute, FunctionCall):
            context = new_context()
            return await perform(what, clock, lambda: execute(copy_args(judged.args), context))
        wanted = new_context() if execute.context_name else None
        if execute.instant is not None:
            await self._turns.give_way()
            self._check_interrupt()
            done = perform_at_once(what, clock, partial(execute.at_once, copy_args(judged.args), wanted))
            if done:
                return done
        if execute.pooled:
            call = partial(execute.here, copy_args(judged.args), wanted)
            done = await perform(what, clock, partial(run_in_thread, call))
            return await perform(what, clock, lambda: done.value) if inspect.isawaitable(done.value) else done
        return await perform(what, clock, lambda: execute(copy_args(judged.args), wanted))

    def _success(self, call: ToolCall, returned: Any) -> ToolOutcome:
        try:
            value = _result_value(returned)
        except (Exception, SystemExit) as error:  # third-party code: what a tool returns may not be what it seems
            return ToolOutcome.failed(call, "error", error_text(error))
        self._check_kind(call, value)
        if only_looks() and (part := gate.unwritable.find_unwritable(returned)):
            problem = f"its result has {part} in it, which JSON cannot carry"
            self.bus.emit(StatusEvent("warning", f"{call.name}: {problem}", tool_call_id=call.id))
        return ToolOutcome(call, "success", value)

    def _check_kind(self, call: ToolCall, value: ResultValue) -> None:
        if is_misfit(value):
            problem = "its result names a well-known kind without having what that kind needs, so it is taken as JSON"
            self.bus.emit(StatusEvent("warning", f"{call.name}: {problem}", tool_call_id=call.id))

    def _context(
        self, judged: Judged, stamp: str | None = None, *, changes: bool = True, underway: CallUnderway | None = None
    ) -> ToolContext:
        return gate.contexts.context_of(self, judged, stamp, changes=changes, underway=underway)


def _result_value(value: Any) -> ResultValue:
    return bounded(as_result(value))


def _with_kept(outcome: ToolOutcome, clock: CallClock | None) -> ToolOutcome:
    """The outcome of a call that was stopped, with what its tool could still give back."""
    return outcome if clock is None or clock.kept is None else replace(outcome, value=_result_value(clock.kept))


def _failure(call: ToolCall, error: ToolError) -> ToolOutcome:
    sentence = str(error) or f"{call.name} failed without a message"
    status: OutcomeStatus = "timeout" if isinstance(error, ToolTimeout) else "error"
    outcome = ToolOutcome.failed(call, status, sentence, by="tool")
    return outcome if error.value is None else replace(outcome, value=_result_value(error.value))
