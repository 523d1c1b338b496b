"""The gate: every call of every tool takes the same five steps, and no other code executes tools.

Requested, Judged, Consented, Performed, Outcome: each step makes a value of the one before. A
Refusal ends the call.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from forge_cli.core.approval import Approval, ApprovalDecision, Verdict
from forge_cli.core.calls import Denial, ToolCall, ToolOutcome
from forge_cli.core.errors import NotAsJudged, Stale, ToolError
from forge_cli.core.events import ToolResult, ToolStarted
from forge_cli.core.interrupt import InterruptSignal, Parked
from forge_cli.core.phrases import INTERRUPTED_CALL, NO_ONE_TO_ANSWER
from forge_cli.core.wire import JsonObject
from forge_cli.engine.gate.consent import Consent, typed_by_person
from forge_cli.engine.gate.execution import perform_tool
from forge_cli.engine.gate.judge import Judge
from forge_cli.engine.gate.outcome import ended_as, outcome_of, report_applied, report_to_tool
from forge_cli.engine.gate.steps import (
    AnyCaller,
    CallClock,
    Caller,
    Consented,
    Judged,
    Refusal,
    Requested,
)
from forge_cli.schema.json.input_schema import InputSchema

if TYPE_CHECKING:
    from pydantic import BaseModel

    from forge_cli.core.bus import EventBus
    from forge_cli.core.context import Delegation, ToolContext
    from forge_cli.engine.gate.controller import ApprovalController
    from forge_cli.engine.gate.protocols import RecordedCalls

MAX_ATTEMPTS = 3
"""How often a call starts again because its files changed after it was approved."""
Delegate = Callable[[ToolCall, "Delegation"], Awaitable[str]]
AskPerson = Callable[[str, str, JsonObject], Awaitable["JsonObject | None"]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Guard:
    """The gate of one worker, which takes each call through its steps and records one outcome."""

    judge: Judge
    consent: Consent
    bus: EventBus
    interrupt: InterruptSignal
    delegate: Delegate | None = None
    before_result: Callable[[Any], Awaitable[None]] | None = None
    """Called with a result just before it is recorded."""
    sync_consent: Callable[[], Awaitable[None]] | None = None
    """Waits until consent is stored safely, if the record does not do so by itself."""
    repeated: RecordedCalls | None = None
    """The recorded calls, if a session is replayed."""
    network_denials: list[Denial] = field(default_factory=list)
    """Connections of commands that were denied since the last result; ``NetworkConsent`` adds them.
    """
    ask_person: AskPerson | None = None
    """Shows a form to the user: who asks, the question, and the schema of the answer."""
    person_elsewhere: bool = False
    """True if the bus does not reach the user, such as the user of a calling program."""

    @property
    def controller(self) -> ApprovalController:
        """The controller that asks, with the mode of the session."""
        return self.consent.controller

    async def call(
        self,
        call: ToolCall,
        caller: AnyCaller,
        judged: Judged | None = None,
        *,
        own_command: bool = False,
    ) -> ToolOutcome:
        """Carry out a call, from its start to its outcome; Parked leaves it open.

        If ``own_command`` is True, the user typed it, so it does not ask.
        """
        if not self.is_reopened(call):
            self.start(call)
        requested = Requested(call, caller)
        ended: ToolOutcome | Refusal | None = None
        with self.interrupt.scope():
            try:
                if caller is Caller.PERSON and self.judge.provenance:
                    self.judge.provenance.typed(json.dumps(call.args, ensure_ascii=False))
                judged = judged or await self.judge.decide(call, caller)
                if own_command:
                    judged = typed_by_person(judged)
                ended = await self._pass(requested, judged)
            except Refusal as refusal:
                ended = refusal
        return await self._conclude(requested, ended, judged)

    async def _pass(self, requested: Requested, judged: Judged) -> ToolOutcome:
        """Take a call through the last four steps.

        If what was approved has changed, judge it and ask again.
        """
        call = judged.call
        if self.repeated and (known := self.repeated.instead(judged)):
            return self.consent.take_recorded(judged, known)
        for _ in range(MAX_ATTEMPTS):
            self._check_interrupt()
            verdict = judged.verdict
            mode = self.controller.session_mode
            # The most frequent case by far needs nothing of Consent.
            is_plain = mode == "ask" and self.judge.reopened is None
            if is_plain and verdict.approval is Approval.PRE_APPROVED:
                self.bus.emit(judged.decided(ApprovalDecision(True, by=verdict.by)))
                consented = Consented(judged)
            else:
                consented = await self.consent.settle(requested, judged)
            # Before the effect, or a crash could leave an effect without its consent in the record.
            if self.sync_consent:
                await self.sync_consent()
            # Again: asking may have taken minutes.
            self._check_interrupt()
            if self.judge.reopened:
                self.judge.reopened.start(call)
            requested.consented = consented.judged
            clock = requested.clock = CallClock(judged.tool.timeout)
            performed = await perform_tool(
                consented, partial(self._context, requested, clock, consented), clock
            )
            # Code that blocks the event loop may end late because it missed an interrupt.
            if performed.late:
                self._check_interrupt()
            if not isinstance(performed.error, Stale):
                if consented.tried:
                    requested.ran_in_trial = True
                    report_applied(self.bus, consented.tried, performed.error)
                return outcome_of(call, performed, clock, self.bus)
            judged = await self._judge_again(judged, performed.error)
        raise Refusal("error", f"{call.name}: what it works on keeps changing; try again later")

    def _context(self, requested: Requested, clock: CallClock, consented: Consented) -> ToolContext:
        """Return the context of an executed call, which may change files, ask and call tools."""
        # Many tools take no context.
        from forge_cli.engine.gate.contexts import ToolCalls, preview_context

        judged = consented.judged
        delegation = None
        if self.delegate:
            delegation = partial(self._delegate_task, self.delegate, judged.call, clock)
        questions = None
        if self.ask_person:
            questions = partial(self._put_question, self.ask_person, judged.call, clock)
        return dataclasses.replace(
            preview_context(self.judge, judged, self.bus, self.interrupt, changes=True),
            stamp=consented.stamp,
            delegation=delegation,
            inner=ToolCalls(requested, self),
            questions=questions,
        )

    async def _delegate_task(
        self, delegate: Delegate, call: ToolCall, clock: CallClock, task: Delegation
    ) -> str:
        with clock.pause():
            return await delegate(call, task)

    async def _put_question(
        self,
        ask: AskPerson,
        call: ToolCall,
        clock: CallClock,
        question: str,
        schema: JsonObject | type[BaseModel],
    ) -> JsonObject | None:
        form = InputSchema.of(schema).json_schema
        if not (self.bus.attended or self.person_elsewhere):
            raise ToolError(f"{call.name} has a question, and {NO_ONE_TO_ANSWER} it: {question}")
        with clock.pause():
            return await ask(f"the tool {call.name}", question, form)

    async def _conclude(
        self, requested: Requested, ended: ToolOutcome | Refusal | None, judged: Judged | None
    ) -> ToolOutcome:
        """Record the outcome of a call, and report it to its tool and to hooks."""
        denials = (*requested.denials, *self.network_denials)
        self.network_denials.clear()
        outcome = replace(ended_as(requested, ended), denials=denials)
        if self.repeated:
            outcome = self.repeated.compared(outcome)
        elif offer := self.judge.offers.get(requested.call.name):
            report_to_tool(offer.tool, outcome)
        outcome = replace(outcome, duration_ms=requested.duration_ms)
        # Before the result is recorded, because readers of the record rely on what this stores.
        if self.before_result:
            await self.before_result(outcome.value.wire())
        self.finish(outcome)
        executed = requested.consented or judged
        if self.judge.provenance and executed:
            self.judge.provenance.took(executed, outcome, tried=requested.ran_in_trial)
        if self.judge.hooks:
            with self.interrupt.scope():
                await self.judge.hooks.after(outcome, judged)
        return outcome

    async def _judge_again(self, judged: Judged, stale: Stale) -> Judged:
        """Judge a call again because what was approved has changed; it asks at least."""
        again = self.judge.judge_words(await self.judge.verdict(judged.call, judged.caller))
        if again.verdict.approval is Approval.BLOCKED or again.verdict.provenance:
            return again
        if isinstance(stale, NotAsJudged):
            approval = Approval.BLOCKED if stale.blocked else Approval.ASK
            verdict = Verdict(
                approval, str(stale), by="tool", parts=again.verdict.parts, unruled=True
            )
            return replace(again, verdict=verdict)
        reason = f"{stale}; what was approved no longer holds, so it asks again"
        return replace(again, verdict=Verdict(Approval.ASK, reason, by="tool"))

    def _check_interrupt(self) -> None:
        """Raise Refusal after an interrupt.

        Code that never awaits does not notice its scope is cancelled.
        """
        if self.interrupt.interrupted:
            raise Refusal("interrupted", INTERRUPTED_CALL)

    async def judge_parallel(self, call: ToolCall, *, may_ask: bool = False) -> Judged | None:
        """Return the verdict on a call of the model that may run beside others, or None.

        A call that only reads may, if it needs no consent. A tool with ``parallel`` may have
        effects. With ``may_ask``, its call may also need consent; the questions are put one at a
        time.
        """
        offer = self.judge.offers.get(call.name)
        if offer is None or self.is_reopened(call) or self.repeated:
            return None
        has_effects = offer.tool.parallel > 1
        if not (offer.tool.read_only or has_effects):
            return None
        with self.interrupt.scope(), suppress(Refusal):
            judged = await self.judge.decide(call, Caller.MODEL)
            if judged.verdict.approval is Approval.PRE_APPROVED:
                return judged
            if judged.verdict.approval is Approval.ASK and has_effects and may_ask:
                return judged
        return None

    async def park(self, call: ToolCall) -> bool:
        """Record the request of a call while an earlier call waits.

        Return True if there was one to record.
        """
        parked = False
        with self.interrupt.scope(), suppress(Refusal, Parked):
            judged = await self.judge.decide(call, Caller.MODEL)
            parked = not self.is_reopened(call) and self.consent.must_ask(judged)
            if parked:
                self.start(call)
                await self.consent.park(judged)
        return parked

    def postpone(self, call: ToolCall, sentence: str) -> ToolOutcome:
        """Record the result of a call that is not made now, but may be made again."""
        self.start(call)
        return self.finish(ToolOutcome.failed(call, "error", sentence))

    def skip(self, call: ToolCall, sentence: str) -> ToolOutcome:
        """Record the result of a call that will never start."""
        self.start(call)
        return self.cut_off(call, sentence)

    def refuse_redacted(self, call: ToolCall) -> ToolOutcome:
        """Deny a call from the log that contained a secret, since the secret is not in the log."""
        why = "its input contained a secret, which the session log does not contain"
        sentence = f"{call.name} was not called; denied: {why}"
        if self.judge.reopened:
            self.judge.reopened.take_pending(call)
        return self.finish(ToolOutcome.failed(call, "denied", sentence, by="rule"))

    def cut_off(self, call: ToolCall, sentence: str = INTERRUPTED_CALL) -> ToolOutcome:
        """Record the result of a call that started and never ended."""
        return self.finish(ToolOutcome.failed(call, "interrupted", sentence))

    def is_reopened(self, call: ToolCall) -> bool:
        """Return True if the call started before the session was resumed."""
        return self.judge.reopened is not None and self.judge.reopened.knows(call)

    def schema_of(self, name: str) -> JsonObject | None:
        """Return the input schema of a tool, or None if there is no such tool."""
        offer = self.judge.offers.get(name)
        return offer.tool.schema.json_schema if offer else None

    def start(self, call: ToolCall) -> None:
        """Record the start of a call."""
        self.bus.emit(ToolStarted(call.id, call.name, call.args, call.parent))

    def finish(self, outcome: ToolOutcome) -> ToolOutcome:
        """Record the outcome of a call."""
        call = outcome.call
        offer = self.judge.offers.get(call.name)
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
