"""The state of a session, folded from the lines of its log: messages, calls and workers.

Resuming, transcripts, the web page, audits, replays and rewinding are views of this state.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar, assert_never

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core import events
from forge_cli.core.actions import (
    ApprovalResponse,
    CommandEvent,
    Interrupt,
    ManualToolInvoke,
    UserInput,
)
from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.core.calls import ToolCall, call_identity
from forge_cli.core.event_kinds import OtherEvent
from forge_cli.core.messages import CallResult, Message, StopReason
from forge_cli.core.phrases import ELIDED_RESULT, INTERRUPTED_CALL, UNCERTAIN_CALL, has_mark
from forge_cli.core.trial import CommandTried, DraftEvent
from forge_cli.record.line import Line

E = TypeVar("E", bound=events.Event)


class Recorded(Struct, Generic[E], frozen=True):
    """An event and the line that contains it."""

    event: E
    line: Line


@dataclass(eq=False)
class CallState:
    """A call and everything that the log says about it so far."""

    call: ToolCall
    worker: WorkerState
    by_model: bool = False
    started: Line | None = None
    """The line with which the call first started."""
    turn: int = 0
    """The turn of the root worker in which it started."""
    number: int = 0
    """The number of the root worker's call that it is part of, or that it is."""
    tried: CommandTried | None = None
    asked: Recorded[events.ApprovalRequired] | None = None
    """The last request about it."""
    answer: ApprovalDecision | None = None
    """The last answer to that request, whether or not a decision followed."""
    decided: Recorded[events.ApprovalDecided] | None = None
    consented: bool = False
    """True if a line that counts approved it."""
    result: events.ToolResult | None = None
    children: dict[str, WorkerState] = field(default_factory=dict)
    """The child workers that it started, by task."""

    @property
    def open_request(self) -> ApprovalRequest | None:
        """The request, unless it was decided or the call has ended."""
        if (
            self.asked is None
            or self.result
            or (self.decided and self.decided.line.seq > self.asked.line.seq)
        ):
            return None
        return self.asked.event.request

    def as_result(self) -> CallResult | None:
        """Return the result for the model, or None if the call has not ended."""
        ended = self.result
        if ended is None:
            return None
        return CallResult.of(
            self.call.id, ended.tool_name, ended.value, is_error=ended.status != "success"
        )

    def as_cut_off(self, in_flight: Container[str]) -> CallResult:
        """Return the result for the model of a call that was interrupted."""
        return CallResult(
            self.call.id, self.call.name, cut_off_text(self.call, in_flight), is_error=True
        )


@dataclass(eq=False)
class WorkerState:
    """A worker of a session, the root or a child: its history and its current turn."""

    name: str
    delegation: str | None
    update: events.WorkerUpdate | None = None
    """The last update about its task; None for the root."""
    calls: dict[str, CallState] = field(default_factory=dict)
    """The last call with each ID."""
    messages: list[Message] = field(default_factory=list)
    """The history, which is only appended to; any other change makes a new list."""
    turn: dict[str, CallState] = field(default_factory=dict)
    """The calls of the last message, until their results are in the history."""
    inner: dict[str, CallState] = field(default_factory=dict)
    """Open calls by tools, the outer ones first."""
    in_flight: dict[str, str] = field(default_factory=dict)
    """Identities of approved calls without a result, by ID."""
    counted: tuple[int, int] | None = None
    """The last token count of the history, and the number of messages at that time."""
    mid_sentence: bool = False
    """True if the model was stopped while it answered."""
    ended: bool = False
    stop: StopReason = "end"
    environment: str | None = None
    last_environment: str | None = None
    tools: tuple[str, ...] = ()
    _before: dict[int, tuple[list[Message], int]] = field(default_factory=dict)
    """By line number of a user message: the history before it, and its length at that time."""

    def add_message(self, event: events.MessageEvent, seq: int) -> None:
        """Add a message to the history, or replace the beginning of the history by its summary."""
        self.close_turn()
        message = restored_message(event.message)
        if message.role == "user":
            self._before[seq] = self.messages, len(self.messages)
        if event.summary_of is not None:
            # Another list: ``_before`` still refers to the whole history.
            self.messages = [message, *self.messages[event.summary_of :]]
            self.counted = None
            return
        self.messages.append(message)
        self.last_environment = event.environment or self.last_environment
        self.turn = {call.id: CallState(call, self, by_model=True) for call in message.calls}
        self.calls |= self.turn
        self.mid_sentence = event.cut_off
        self.ended = False
        self.stop = "end"

    def turn_results(self) -> tuple[Message, ...]:
        """Return the results of the current turn as one message, in the order of the calls.

        A call without a result is included as interrupted.
        """
        in_flight = frozenset(self.in_flight.values())
        results = [each.as_result() or each.as_cut_off(in_flight) for each in self.turn.values()]
        if not results:
            return ()
        return (Message("tool", results=tuple(results)),)

    def close_turn(self) -> None:
        """Move the results of the current turn into the history."""
        self.messages += self.turn_results()
        self.turn = {}
        self.inner = {}

    def make_room(self, event: events.ContextUsage) -> None:
        """Apply a change of the context: a rewind, a cleared history, or omitted results.

        The event comes after a turn, or before the next one if the history has to shrink. All calls
        have their results by then.
        """
        if all(call.result for call in self.turn.values()):
            self.close_turn()
        if event.rewound is not None:
            messages, length = self._before.get(event.rewound, ([], 0))
            self.messages = messages[:length]
        if event.cleared:
            self.messages = []
            self.last_environment = None
        if elided := frozenset(event.elided or ()):
            self.messages = [without_results(message, elided) for message in self.messages]
        if event.cleared or event.rewound is not None:
            self.counted = None
        else:
            self.counted = (event.used, len(self.messages))

    def settle(self, event: events.ToolResult) -> None:
        """Take a call with a result, and all identical calls, out of those in flight."""
        identity = self.in_flight.get(event.tool_call_id)
        self.inner.pop(event.tool_call_id, None)
        if identity is not None and event.status != "interrupted":
            self.in_flight = {
                call: other for call, other in self.in_flight.items() if other != identity
            }


class SessionState:
    """The state of a session, built by taking its lines in order."""

    def __init__(self, void: Container[int] = ()) -> None:
        """Make an empty state; approvals in lines whose numbers are in ``void`` do not count."""
        self.workers: dict[str | None, WorkerState] = {}
        """The workers by task; None is the root."""
        self.calls: list[CallState] = []
        """Every call, in the order in which they started."""
        self.turns = 0
        """The number of turns of the root worker."""
        self.outer_calls = 0
        """The number of calls of the root worker that no tool made."""
        self.start: events.SessionStart | None = None
        """The last start of the session."""
        self.title: str | None = None
        self.chosen_model: str | None = None
        """The model that was chosen during the session, if it is still in use."""
        self.waiting: dict[str, Recorded[events.ApprovalRequired]] = {}
        """Requests since the last start without an answer, by ID."""
        self.requests: dict[str, CallState] = {}
        """The call of every request, by the ID of the request."""
        self.in_flight_below: dict[tuple[str, str], str] = {}
        """Identities of approved calls of child workers without a result, by task and ID."""
        self._void = void

    def take(self, line: Line) -> CallState | None:
        """Take the next line and return the call that it is about.

        A damaged line raises BadLine and changes nothing.
        """
        event = line.event
        worker = self.workers.get(line.delegation)
        if worker is None:
            worker = self.workers[line.delegation] = WorkerState(line.worker, line.delegation)
        match event:
            case events.MessageEvent():
                worker.add_message(event, line.seq)
            case events.ToolStarted():
                return self._start_call(event, line, worker)
            case events.ApprovalRequired():
                return self._ask(Recorded(event, line), worker)
            case ApprovalResponse():
                return self._answer(event, line)
            case events.ApprovalDecided():
                return self._decide(Recorded(event, line), worker)
            case events.ToolResult():
                return self._end_call(event, worker)
            case CommandTried() if call := worker.calls.get(event.tool_call_id):
                call.tried = event
                return call
            case events.WorkerUpdate():
                worker.update = event
                caller = self.workers.get(event.within)
                if (
                    caller
                    and caller is not worker
                    and (call := caller.calls.get(event.tool_call_id))
                ):
                    call.children[line.delegation or ""] = worker
            case events.TurnStart():
                self.turns += worker.delegation is None
                worker.environment = event.environment or worker.environment
                worker.tools = event.tools or worker.tools
            case events.TurnEndEvent():
                worker.stop = event.stop
            case events.ContextUsage():
                worker.make_room(event)
            case events.SessionStart():
                self.start = event
                if self.chosen_model != event.model:
                    self.chosen_model = None
                self.waiting.clear()
            case events.SessionUpdate():
                self.title = event.title or self.title
                self.chosen_model = event.model or self.chosen_model
            case events.SessionEnd():
                worker.ended = True
            case (
                CommandTried()
                | DraftEvent()
                | events.StatusEvent()
                | events.ModeChanged()
                | events.ManualToolsAvailable()
                | events.GrantsEvent()
                | events.NetworkAccess()
                | events.InputPrompt()
                | events.Streaming()
                | events.ToolOutput()
                | UserInput()
                | Interrupt()
                | ManualToolInvoke()
                | CommandEvent()
                | OtherEvent()
            ):
                pass  # these do not change the state
            case never:
                assert_never(never)
        return None

    def _start_call(self, event: events.ToolStarted, line: Line, worker: WorkerState) -> CallState:
        id, parent = event.tool_call_id, event.parent_call_id
        call = worker.calls.get(id)
        if call is None or call.result:
            call = worker.calls[id] = CallState(
                ToolCall(id, event.tool_name, dict(event.args), parent=parent), worker
            )
        if call.started is None:
            self.outer_calls += worker.delegation is None and parent is None
            call.started = line
            call.turn = self.turns
            call.number = self.outer_calls
            self.calls.append(call)
        if parent is not None:
            worker.inner[id] = call
        return call

    def _ask(
        self, asked: Recorded[events.ApprovalRequired], worker: WorkerState
    ) -> CallState | None:
        request = asked.event.request
        self.waiting[request.request_id] = asked
        if call := worker.calls.get(request.tool_call_id):
            call.asked = asked
            call.answer = None
            self.requests[request.request_id] = call
        return call

    def _answer(self, event: ApprovalResponse, line: Line) -> CallState | None:
        self.waiting.pop(event.request_id, None)
        call = self.requests.get(event.request_id)
        said = event.decision
        if call and not (said.approved and line.seq in self._void):
            call.answer = ApprovalDecision(said.approved, note=said.note, via=said.via)
        return call

    def _decide(
        self, decided: Recorded[events.ApprovalDecided], worker: WorkerState
    ) -> CallState | None:
        event = decided.event
        self._stop_waiting(worker, event.tool_call_id, event.request_id)
        if (call := worker.calls.get(event.tool_call_id)) is None:
            return None
        call.decided = decided
        if event.approved:
            call.consented = call.consented or decided.line.seq not in self._void
            # Identities and not IDs: after a restart the model repeats a call with another ID.
            identity = call_identity(call.call.name, call.call.args)
            if worker.turn.get(event.tool_call_id) or worker.inner.get(event.tool_call_id):
                worker.in_flight[call.call.id] = identity
            if worker.delegation is not None and call.started:
                self.in_flight_below[worker.delegation, call.call.id] = identity
        return call

    def _end_call(self, event: events.ToolResult, worker: WorkerState) -> CallState:
        id = event.tool_call_id
        self._stop_waiting(worker, id)
        worker.settle(event)
        call = worker.calls.get(id)
        if call is None:
            call = worker.calls[id] = CallState(
                ToolCall(id, event.tool_name, {}, parent=event.parent_call_id), worker
            )
        call.result = event
        if worker.delegation is not None and call.started and event.status != "interrupted":
            settled = call_identity(call.call.name, call.call.args)
            below = self.in_flight_below.items()
            self.in_flight_below = {key: identity for key, identity in below if identity != settled}
        return call

    def _stop_waiting(self, worker: WorkerState, call: str, request: str | None = None) -> None:
        for known, asked in list(self.waiting.items()):
            same = (
                asked.event.request.tool_call_id == call
                and asked.line.delegation == worker.delegation
            )
            if same or known == request:
                del self.waiting[known]

    @property
    def tool_calls(self) -> int:
        """The number of calls that no tool made, in all workers and by the user."""
        return sum(call.call.parent is None for call in self.calls)

    def path(self, delegation: str | None) -> tuple[str, ...]:
        """Return the workers from the root to the one with this task."""
        worker = self.workers.get(delegation)
        path = (worker.name,) if worker else ()
        # The limit ends the loop if the parents in a damaged log are circular.
        while worker and worker.update and len(path) <= len(self.workers):
            path = (worker.update.parent, *path)
            worker = self.workers.get(worker.update.within)
        return path


def fold_lines(lines: Iterable[Line], void: Container[int] = ()) -> SessionState:
    """Return the state of a session after these lines."""
    state = SessionState(void)
    for line in lines:
        state.take(line)
    return state


def restored_message(message: Message) -> Message:
    """Return a message for a provider, without the native form if that lost a secret.

    A provider needs its native form unchanged, or not at all.
    """
    if has_mark(message.native):
        return replace(message, native=None)
    return message


def without_results(message: Message, elided: Collection[str]) -> Message:
    """Return a message without the results of these calls.

    It is the same object if it has none of them.
    """
    if not any(result.call_id in elided for result in message.results):
        return message
    results: list[CallResult] = []
    for result in message.results:
        if result.call_id in elided:
            result = replace(result, text=ELIDED_RESULT, files=())
        results.append(result)
    return replace(message, results=tuple(results))


def cut_off_text(call: ToolCall, in_flight: Container[str]) -> str:
    """Return the text for the model about a call without a result.

    It differs if the identity of the call is in ``in_flight``, because the call may have run.
    """
    if call_identity(call.name, call.args) in in_flight:
        return UNCERTAIN_CALL
    return INTERRUPTED_CALL
