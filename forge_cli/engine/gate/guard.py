"""The gate: every call of every tool from every source takes the same five steps here, and none is executed elsewhere.

Requested, Judged, Consented, Performed, Outcome: each is made of the one before, unless a Refusal ends the call.
"""

from __future__ import annotations

import dataclasses
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
from forge_cli.engine.gate.outcome import ended_as, outcome_of, tell_applied, tell_tool
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

ASK_AGAIN = 3
Delegate = Callable[[ToolCall, "Delegation"], Awaitable[str]]
AskPerson = Callable[[str, str, JsonObject], Awaitable["JsonObject | None"]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Guard:
    """One gate a worker: it has a call judged, gets consent for it, executes it, and gives it its one outcome."""

    judge: Judge
    consent: Consent
    bus: EventBus
    interrupt: InterruptSignal
    delegate: Delegate | None = None
    before_result: Callable[[Any], Awaitable[None]] | None = None
    """Gets a result as it will be recorded, just before that."""
    sync_consent: Callable[[], Awaitable[None]] | None = None
    """Waits until consent is where nothing loses it, for a record that does not do so by itself."""
    repeated: RecordedCalls | None = None
    """The record of a session that is repeated, where its calls pass the gate once more."""
    network_denials: list[Denial] = field(default_factory=list)
    """Connections of commands that were denied since a call last took note of them; ``NetworkConsent`` adds them."""
    ask_person: AskPerson | None = None
    """Puts a form to the person: who asks, what, and the schema of the answer."""
    person_elsewhere: bool = False
    """Whether that person is one whom the bus does not reach, such as the user of a program that makes the call."""

    @property
    def controller(self) -> ApprovalController:
        """The one who puts questions to a person, with the mode of the session."""
        return self.consent.controller

    async def call(
        self,
        call: ToolCall,
        caller: AnyCaller,
        judged: Judged | None = None,
        *,
        own_command: bool = False,
    ) -> ToolOutcome:
        """Take a call from its start to its one outcome; Parked leaves it open.

        An ``own_command`` was typed by the person, so that it does not ask.
        """
        if not self.is_reopened(call):
            self.start(call)
        requested = Requested(call, caller)
        ended: ToolOutcome | Refusal | None = None
        with self.interrupt.scope():
            try:
                judged = judged or await self.judge.decide(call, caller)
                judged = typed_by_person(judged) if own_command else judged
                ended = await self._pass(requested, judged)
            except Refusal as refusal:
                ended = refusal
        return await self._conclude(requested, ended, judged)

    async def _pass(self, requested: Requested, judged: Judged) -> ToolOutcome:
        """Judged, Consented, Performed, Outcome; what was approved and has changed since is judged and asked again."""
        call = judged.call
        if self.repeated and (known := self.repeated.instead(judged)):
            return self.consent.take_recorded(judged, known)
        for _ in range(ASK_AGAIN):
            self._check_interrupt()
            verdict, mode = judged.verdict, self.controller.session_mode
            if (
                verdict.approval is Approval.PRE_APPROVED
                and self.judge.reopened is None
                and mode == "ask"
            ):
                self.bus.emit(judged.decided(ApprovalDecision(True, by=verdict.by)))
                consented = Consented(judged)
            else:
                consented = await self.consent.settle(requested, judged)
            if self.sync_consent:
                await self.sync_consent()
            self._check_interrupt()
            if self.judge.reopened:
                self.judge.reopened.start(call)
            clock = requested.clock = CallClock(judged.tool.timeout)
            performed = await perform_tool(
                judged, partial(self._context, requested, clock, consented), clock
            )
            if performed.late:
                self._check_interrupt()
            if not isinstance(performed.error, Stale):
                if consented.tried:
                    tell_applied(self.bus, consented.tried, performed.error)
                return outcome_of(call, performed, clock, self.bus)
            judged = await self._judge_again(judged, performed.error)
        raise Refusal("error", f"{call.name}: what it touches keeps changing; try again later")

    def _context(self, requested: Requested, clock: CallClock, consented: Consented) -> ToolContext:
        """Return the context of a call that is executed: it may change things, delegate, ask and call other tools."""
        from forge_cli.engine.gate.contexts import ToolCalls, preview_context

        judged = consented.judged
        return dataclasses.replace(
            preview_context(self.judge, judged, self.bus, self.interrupt, changes=True),
            stamp=consented.stamp,
            delegation=partial(self._delegate_task, self.delegate, judged.call, clock)
            if self.delegate
            else None,
            inner=ToolCalls(requested, self),
            questions=partial(self._put_question, self.ask_person, judged.call, clock)
            if self.ask_person
            else None,
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
        """Put the one outcome of a call on record, and tell it to its tool and to hooks."""
        denials = (*requested.denials, *self.network_denials)
        self.network_denials.clear()
        outcome = replace(ended_as(requested, ended), denials=denials)
        if self.repeated:
            outcome = self.repeated.compared(outcome)
        elif offer := self.judge.offers.get(requested.call.name):
            tell_tool(offer.tool, outcome)
        outcome = replace(outcome, duration_ms=requested.duration_ms)
        if self.before_result:
            await self.before_result(outcome.value.wire())
        self.finish(outcome)
        if self.judge.hooks:
            with self.interrupt.scope():
                await self.judge.hooks.after(outcome, judged)
        return outcome

    async def _judge_again(self, judged: Judged, stale: Stale) -> Judged:
        """Judge a call as things are now, since what was approved no longer holds: it asks at least."""
        again = await self.judge.verdict(judged.call, judged.caller)
        if again.verdict.approval is Approval.BLOCKED:
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
        """Code that never waits would not notice the end of the scope around it."""
        if self.interrupt.interrupted:
            raise Refusal("interrupted", INTERRUPTED_CALL)

    async def judge_parallel(self, call: ToolCall, *, may_ask: bool = False) -> Judged | None:
        """Return the verdict on a call of the model that may run beside others, or None if it has to run alone.

        A call that only reads may, if it needs no consent. A tool with ``parallel`` may have effects; with ``may_ask``
        its call may need consent, too: the questions are put one at a time.
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
        """Put the request of a call on record, if it has one to make, while an earlier call waits; did it?"""
        parked = False
        with self.interrupt.scope(), suppress(Refusal, Parked):
            judged = await self.judge.decide(call, Caller.MODEL)
            parked = not self.is_reopened(call) and self.consent.must_ask(judged)
            if parked:
                self.start(call)
                await self.consent.park(judged)
        return parked

    def postpone(self, call: ToolCall, sentence: str) -> ToolOutcome:
        """A call that is not made, but may be made again, gets its result."""
        self.start(call)
        return self.finish(ToolOutcome.failed(call, "error", sentence))

    def skip(self, call: ToolCall, sentence: str) -> ToolOutcome:
        """A call that will not be taken up any more still gets its result."""
        self.start(call)
        return self.cut_off(call, sentence)

    def refuse_redacted(self, call: ToolCall) -> ToolOutcome:
        """A call from the log that held a secret cannot be made any more: what it held is not kept."""
        sentence = f"{call.name} was not called; denied: its input held a secret, which the session does not keep"
        if self.judge.reopened:
            self.judge.reopened.take_pending(call)
        return self.finish(ToolOutcome.failed(call, "denied", sentence, by="rule"))

    def cut_off(self, call: ToolCall, sentence: str = INTERRUPTED_CALL) -> ToolOutcome:
        """A call that was taken up and never ended gets its result."""
        return self.finish(ToolOutcome.failed(call, "interrupted", sentence))

    def is_reopened(self, call: ToolCall) -> bool:
        """Was it taken up before the session was resumed?"""
        return self.judge.reopened is not None and self.judge.reopened.knows(call)

    def schema_of(self, name: str) -> JsonObject | None:
        """Return the schema of a tool's input, if there is such a tool."""
        offer = self.judge.offers.get(name)
        return offer.tool.schema.json_schema if offer else None

    def start(self, call: ToolCall) -> None:
        """Put the start of a call on record."""
        self.bus.emit(ToolStarted(call.id, call.name, call.args, call.parent))

    def finish(self, outcome: ToolOutcome) -> ToolOutcome:
        """Put the one outcome of a call on record."""
        call, offer = outcome.call, self.judge.offers.get(outcome.call.name)
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
