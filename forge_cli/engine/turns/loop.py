"""The loop of a conversation: ask the model, run its calls, return the results, until done."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.bounds import CALL_LIMIT, call_within
from forge_cli.core.bus import EventBus
from forge_cli.core.calls import ToolCall, ToolOutcome
from forge_cli.core.errors import ExitCode, ModelError
from forge_cli.core.events import MessageEvent, StatusEvent, TurnEndEvent, TurnStart
from forge_cli.core.interrupt import Ended, Interrupted, InterruptSignal
from forge_cli.core.messages import (
    Attachment,
    CallResult,
    Message,
    ModelProvider,
    ModelRequest,
    StopReason,
    ToolSpec,
    TurnEnd,
    Usage,
)
from forge_cli.core.phrases import INTERRUPTED_ANSWER, RESUME_CUT_OFF, command_of_user, has_mark
from forge_cli.core.results import for_model
from forge_cli.engine.gate.toolbox import Toolbox
from forge_cli.engine.turns.calls import MAX_CALLS, Turn
from forge_cli.engine.turns.history import Ask, Context, History, Keep
from forge_cli.engine.turns.limits import Budget, CostWatch, Repeats
from forge_cli.engine.turns.offered import OfferedTools, spec_of
from forge_cli.engine.turns.stream import AnswerStream
from forge_cli.sandbox.secrets import Redactor

if TYPE_CHECKING:
    from forge_cli.engine.gate.guard import Guard
    from forge_cli.engine.turns.output import Misfit, OutputSchema
    from forge_cli.engine.turns.room import RoomMaker
    from forge_cli.record.resume import Past


MAX_REPAIRS = 2
"""How often the model may correct a final answer that does not match its schema."""
MAX_CUT_OFF = 5
"""Turns in a row that may end at the length limit without a complete call."""


class Stopped(Ended):
    """Raised if a refused call ends the task."""

    status = "denied"
    exit_code = ExitCode.DENIED


class CallFailed(Ended):
    """Raised if a failed call ends the task, because the worker's ``on_error`` is ``stop``."""

    status = "failed"
    exit_code = ExitCode.FAILED

    def __init__(self, outcome: ToolOutcome) -> None:
        problem = f"{outcome.call.name} failed ({outcome.status})"
        super().__init__(f"{problem}, and on_error is 'stop': {outcome.error}")


class InvalidOutput(Ended):
    """Raised if the final answer does not match its schema even after repairs."""

    status = "invalid_output"
    exit_code = ExitCode.MISFIT


class EnvironmentChange(Struct, frozen=True):
    """A message to the model about an environment that differs from the system prompt."""

    message: str
    paragraph: str
    """The current environment, as the system prompt would describe it."""


@dataclass
class Tally:
    """The use of one task so far, and its results."""

    turns: int = 0
    usage: Usage = field(default_factory=Usage)
    outcomes: list[ToolOutcome] = field(default_factory=list)
    waiting: int = 0
    begun: bool = False
    """True once the task itself has begun, after the open calls of a resumed session."""
    output: Any = None
    started: float = field(default_factory=time.monotonic)

    @property
    def calls(self) -> int:
        """The number of calls, including refused ones and those that wait for an answer."""
        return len(self.outcomes) + self.waiting


@dataclass(kw_only=True)
class Loop:
    """The conversation of a worker with its model, turn by turn."""

    model: ModelProvider
    offered: OfferedTools
    guard: Guard
    context: Context
    system: str
    environment: str | None = None
    """The part of the system prompt about the environment."""
    news: EnvironmentChange | None = None
    """A change of the environment that the model learns before its next turn."""
    commands: list[ToolOutcome] = field(default_factory=list)
    """Commands that the user ran since the last task, which the next task reports."""
    stop_on_refusal: bool
    stop_on_failure: bool = False
    redactor: Redactor
    output: OutputSchema | None = None
    last_text: str = ""
    """The text of the model in its last turn of this task."""
    _last_prompt: tuple[str, tuple[ToolSpec, ...], str] | None = None
    """System prompt, tools and model of the last request."""
    _cost_watch: CostWatch = field(default_factory=CostWatch)
    _told_news: bool = False
    _refresh_ms: float | None = None
    """The time that it took to find the tools of the next turn."""

    @property
    def toolbox(self) -> Toolbox:
        return self.offered.toolbox

    @property
    def history(self) -> History:
        return self.context.history

    @property
    def bus(self) -> EventBus:
        return self.context.bus

    @property
    def interrupt(self) -> InterruptSignal:
        return self.guard.interrupt

    @property
    def last_environment_sent(self) -> str | None:
        """The last environment that was sent to the model."""
        if self.news and self._told_news:
            return self.news.paragraph
        return self.environment

    def taking_over(self, before: Loop) -> Loop:
        """Return this loop with the conversation of the loop that it replaces."""
        self._last_prompt = before._last_prompt
        self.commands = before.commands
        if self.news is None and before._told_news:
            self.news = before.news
            self._told_news = True
        return self

    def _room_maker(self, lasting: Collection[str], ask: Ask) -> RoomMaker:
        from forge_cli.engine.turns.room import RoomMaker  # few sessions fill their window

        return RoomMaker(self.context, lasting, ask)

    async def compact(self, tally: Tally, budget: Budget) -> int | None:
        """Summarize all but the last turn; return the number of messages, or None."""
        offers = await self.toolbox.refresh()
        lasting = {offer.tool.name for offer in offers.values() if offer.tool.lasting}
        return await self._room_maker(lasting, partial(self._ask, tally, budget)).compact()

    def forget(self, kept: Sequence[Message] = (), line: int | None = None) -> None:
        """Begin a new conversation, or return to a line of the log."""
        self.context.clear(kept, line)
        self._told_news = False
        self.commands.clear()

    async def resume(self, past: Past, tally: Tally) -> None:
        """Finish the turn in which a session was left: make open calls, report lost ones."""
        from forge_cli.record.state import cut_off_text

        for call in past.cut_off:
            self.guard.cut_off(call, cut_off_text(call, past.in_flight))
        if past.calls:
            await self._call_all(past.calls, tally, dict(past.results))

    async def work(
        self,
        task: str,
        attachments: Sequence[Attachment],
        tally: Tally,
        budget: Budget,
        left: tuple[Message, StopReason] | None = None,
    ) -> str:
        """Take turns until the model calls nothing more, and return its last text.

        Without a task, begin with the reply that a session was ``left`` with, if it has one.
        """
        tally.begun = True
        self.last_text = ""
        known = None if task else left
        if self.news and not self._told_news and not known:
            self._say(Message("user", self.news.message), environment=self.news.paragraph)
            self._told_news = True
        if task:
            parts = [task]
            for each in self.commands:
                command = str(each.call.args.get("command", ""))
                parts.append(command_of_user(command, for_model(each.value)))
            self.commands.clear()
            typed = self._begin_task(task, attachments)
            message = Message("user", "\n\n".join(parts), attachments=tuple(attachments))
            self._say(message, typed=typed)
        answer = ""
        repeats = Repeats()
        repairs = 0
        cut_off = 0
        while True:
            reply, stop = known or await self._turn(partial(self._ask, tally, budget))
            # An answer that was cut off continues in the next turn.
            answer = "" if reply.calls else answer + reply.text
            if stop == "max_tokens" and not reply.calls:
                cut_off += 1
            else:
                cut_off = 0
            known = None
            self.last_text = answer or reply.text
            if reply.calls:
                repeats.note(await self._call_all(reply.calls, tally))
            elif cut_off == MAX_CUT_OFF:
                often = f"{MAX_CUT_OFF} times in a row"
                problem = f"{self.model.name} was cut off at its length limit {often}"
                raise ModelError(problem, hint="ask for smaller parts")
            elif cut_off:
                self._say(Message("user", RESUME_CUT_OFF))
            elif stop == "refusal":
                raise ModelError(f"{self.model.name} declined to answer", hint="rephrase the task")
            elif (misfit := self._misfit(answer, tally)) is None:
                budget.check_last_turn()
                if self.output:
                    from forge_cli.engine.turns.output import unfenced

                    answer = unfenced(answer)
                return answer
            elif self.output and repairs < MAX_REPAIRS:
                answer = ""
                repairs += 1
                self._say(Message("user", self.output.repair(misfit)), typed=False)
            else:
                raise InvalidOutput(f"the final answer does not match its schema: {misfit}")

    def _misfit(self, answer: str, tally: Tally) -> Misfit | None:
        """Return the problem of the final answer; if there is none, the tally gets its value."""
        if self.output is None:
            return None
        from forge_cli.engine.turns.output import Misfit

        try:
            tally.output = call_within(
                CALL_LIMIT, "checking the final answer", self.output.read, answer
            )
        except Misfit as misfit:
            return misfit
        return None

    async def _turn(self, ask: Ask) -> tuple[Message, str]:
        """Take one turn; make room in the window before it, or after the provider asked for it."""
        started = time.monotonic()
        tools = await self.offered.refresh()
        self._refresh_ms = round((time.monotonic() - started) * 1000, 1)
        specs = tuple(map(spec_of, tools))
        lasting = {tool.name for tool in tools if tool.lasting}
        if (window := self.context.find_crowded(self.system, specs)) is not None:
            await self._room_maker(lasting, ask).reduce(window)
        try:
            reply, end = await ask(self.system, self.history, specs, self._keep)
        except ModelError as error:
            if not error.too_long:
                raise
            self.bus.emit(StatusEvent("warning", error.message))
            if not await self._room_maker(lasting, ask).shrink():
                raise
            reply, end = await ask(self.system, self.history, specs, self._keep)
        self.context.count(end.usage)
        return reply, end.stop

    async def _ask(
        self,
        tally: Tally,
        budget: Budget,
        system: str,
        history: History,
        specs: Sequence[ToolSpec],
        keep: Keep,
    ) -> tuple[Message, TurnEnd]:
        """Take a turn within the limits; a turn beside the conversation is not shown."""
        budget.start_turn()
        tally.turns += 1
        prompt = system, tuple(specs), self.model.name
        digest = history.digest(system, specs)
        names = tuple([spec.name for spec in specs])
        start = TurnStart(tally.turns, digest, names, refresh_ms=self._refresh_ms)
        if prompt != self._last_prompt:  # otherwise the log has these already
            environment = self.environment if system == self.system else None
            start = replace(
                start,
                system=system,
                environment=environment,
                specs=prompt[1],
                model=self.model.name,
            )
        self._last_prompt = prompt
        self._refresh_ms = None
        self.bus.emit(start)
        reply, end = await self._listen(
            ModelRequest(system, history, specs), aloud=history is self.history
        )
        await self.redactor.redact_ahead([reply.text, *(call.args for call in reply.calls)])
        tally.usage += end.usage
        cost = budget.spend(end.usage)
        keep(reply, end)
        self.bus.emit(TurnEndEvent(tally.turns, end.stop, end.usage, cost))
        if warning := self._cost_watch.note(cost):
            self.bus.emit(StatusEvent("warning", warning))
        return reply, end

    async def _listen(self, request: ModelRequest, *, aloud: bool) -> tuple[Message, TurnEnd]:
        """Read one answer; an interrupted one keeps its text and loses its calls."""
        known_ids = self.history.call_ids
        answer = AnswerStream(
            self.model, self.toolbox, self.bus, self.redactor, known_ids=known_ids, aloud=aloud
        )
        if not await answer.read(request, self.interrupt):
            if aloud:
                self.last_text = answer.text
                self._say(Message("assistant", answer.text or INTERRUPTED_ANSWER), cut_off=True)
            raise Interrupted(self.interrupt.reason)
        return answer.close()

    async def _call_all(
        self, calls: Sequence[ToolCall], tally: Tally, known: dict[str, CallResult] | None = None
    ) -> list[ToolOutcome]:
        """Make the calls; each gets one result before an interrupt or a refusal ends the task."""
        results = known or {}
        turn = Turn(self.guard, self.stop_on_refusal, self.stop_on_failure)
        # Redacted arguments of a resumed session cannot be restored, so these calls are refused.
        lost: list[ToolCall] = []
        open_calls: list[ToolCall] = []
        for call in calls:
            if call.id in results:
                continue
            if known is not None and has_mark(call.args):
                lost.append(call)
            else:
                open_calls.append(call)
        turn.outcomes += [self.guard.refuse_redacted(call) for call in lost]
        try:
            # Calls of the turn that have a result already count for the limit, too.
            await turn.take(open_calls, max(0, MAX_CALLS - len(calls) + len(open_calls)))
        finally:
            tally.outcomes += turn.outcomes
            tally.waiting += turn.waiting
        results.update([(outcome.call.id, _result(outcome)) for outcome in turn.outcomes])
        if turn.parked:
            raise turn.parked
        self.offered.note(turn.outcomes)
        self.history.append(Message("tool", results=tuple([results[call.id] for call in calls])))
        if self.interrupt.interrupted:
            raise Interrupted(self.interrupt.reason)
        if turn.refused:
            denials = turn.refused.denials
            reason = denials[0].reason if denials else ""
            raise Stopped(reason or turn.refused.refusal)
        if turn.failed:
            raise CallFailed(turn.failed)
        provenance = self.guard.judge.provenance
        if provenance is not None and provenance.flood:
            raise Stopped(provenance.flood)
        return turn.outcomes

    def _keep(self, reply: Message, end: TurnEnd) -> None:
        self._say(reply)

    def _say(
        self,
        message: Message,
        *,
        cut_off: bool = False,
        environment: str | None = None,
        typed: bool = True,
    ) -> None:
        self.history.append(message)
        self.bus.emit(MessageEvent(message, cut_off, environment=environment, typed=typed))

    def _begin_task(self, task: str, attachments: Sequence[Attachment]) -> bool:
        """Take the words of the task; return False if no person wrote them."""
        provenance = self.guard.judge.provenance
        return provenance is None or provenance.begin_task(task, attachments)


def _result(outcome: ToolOutcome) -> CallResult:
    return CallResult.of(outcome.call.id, outcome.call.name, outcome.value, is_error=not outcome.ok)
