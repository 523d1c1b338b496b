"""What a session has come to: its history read back from the log, and what was still open when it ended."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import assert_never

from forge_cli.core.approval import ApprovalDecision
from forge_cli.core.calls import ToolCall, call_identity
from forge_cli.core.events import (
    AnyEvent,
    ApprovalDecided,
    ApprovalRequired,
    ApprovalResponse,
    CommandEvent,
    CommandTried,
    ContextUsage,
    GrantsEvent,
    InputPrompt,
    Interrupt,
    ManualToolInvoke,
    ManualToolsAvailable,
    MessageEvent,
    ModeChanged,
    NetworkAccess,
    OtherEvent,
    SessionEnd,
    SessionStart,
    SessionUpdate,
    StatusEvent,
    Streaming,
    ToolOutput,
    ToolResult,
    ToolStarted,
    TurnEndEvent,
    TurnStart,
    UserInput,
    WorkerUpdate,
)
from forge_cli.core.messages import CallResult, Message, StopReason
from forge_cli.core.phrases import ELIDED_RESULT, INTERRUPTED_CALL, UNCERTAIN_CALL
from forge_cli.core.wire import JsonObject
from forge_cli.record.line import Line
from forge_cli.sandbox.secrets import has_mark


@dataclass(frozen=True)
class Pending:
    """A request that nobody has decided, or that was answered while nobody worked."""

    request_id: str
    fingerprint: str | None = None
    stamp: str | None = None
    answer: ApprovalDecision | None = None


@dataclass(frozen=True)
class Past:
    """A session so far. ``calls`` of the last turn that are open come first when it is resumed."""

    messages: tuple[Message, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    results: Mapping[str, CallResult] = field(default_factory=dict)
    """Results of the last turn that came before the session ended."""
    pending: Mapping[str, Pending] = field(default_factory=dict)
    """By call: the requests that are still to be decided."""
    cut_off: tuple[ToolCall, ...] = ()
    """Calls of the last turn, and of tools in it, that will never have another result than ``interrupted``."""
    in_flight: frozenset[str] = frozenset()
    """Identities of calls, also of workers further down, that were approved and have no result: they may have run."""
    counted: tuple[int, int] | None = None
    """How many tokens the history had when they were counted last, and how many messages it had then."""
    children: Mapping[str, tuple[PastChild, ...]] = field(default_factory=dict)
    """By call that is open: the workers that it called, in that order; one of them waits for a decision."""
    lost: tuple[PastChild, ...] = ()
    """Workers that were called by what was cut off, and were cut off with it."""
    consented: frozenset[str] = frozenset()
    """Calls of the last turn whose approval holds while they wait for a child worker."""
    mid_sentence: bool = False
    """Was the model stopped while it spoke?"""
    reply: tuple[Message, StopReason] | None = None
    """An answer of the model, and why it stopped, that the session did not come to record as its end."""
    environment: str | None = None
    """What the system prompt says of where the worker is."""
    last_environment: str | None = None
    """What the model was told last of where the worker is."""
    tools: tuple[str, ...] = ()
    """Those that the last turn was offered."""

    @property
    def unfinished(self) -> bool:
        """Is it the model's turn, or a call's, or was its end lost? Otherwise somebody has to say something first."""
        open_end = bool(self.messages) and (self.messages[-1].role != "assistant" or self.mid_sentence)
        return bool(self.calls) or open_end or self.reply is not None


@dataclass(frozen=True)
class PastChild:
    """A worker that was called: the id of its task, and what it has come to."""

    delegation: str
    worker: str
    call: str
    """By which its caller called it."""
    past: Past
    answer: str | None = None
    """What it said in the end, if it came to its end."""
    open: bool = False
    """Nothing was heard of its end."""

    @property
    def task(self) -> str:
        return self.past.messages[0].text if self.past.messages else ""


@dataclass(frozen=True)
class Resumed:
    """A session to be resumed: what it has come to, and the last line of its log."""

    past: Past
    last: Line | None = None
    """None for a child worker, whose session is that of its parent."""
    forked_from: str | None = None
    model: str | None = None
    """The model that answered before; it does so again where nobody names one."""
    chosen_model: str | None = None
    """The model that the person chose in the middle of it; it counts before that of the worker."""
    output_schema: JsonObject | None = None
    """What the answer had to fit; it still has to, where the same task is resumed."""
    title: str | None = None
    """What the session is called."""
    read_only: bool = False
    """Was it begun, or resumed, as one in which nothing can be changed? Then it stays so."""

    @property
    def session_id(self) -> str | None:
        return self.last.session if self.last else None


def read_past(lines: Iterable[Line], delegation: str | None = None, *, void: Container[int] = ()) -> Past:
    """Read a session back; with ``delegation`` the part of it that the worker did which was given that task.

    ``void`` are the numbers of lines whose yes does not count, so that the call asks again.
    """
    reader, kept = _Reader(void), tuple(lines)
    for line in kept:
        if line.delegation == delegation:
            reader.take(line)
            continue
        match line.event:
            case WorkerUpdate() as update if update.within == delegation:
                reader.delegated.setdefault(update.tool_call_id, {})[line.delegation or ""] = line.worker, update
            case ApprovalResponse() as answer:
                reader.answered(answer, line)
    past = reader.past(kept)
    if delegation:
        return replace(past, reply=None)
    return replace(past, in_flight=past.in_flight | _in_flight_in_children(kept, set(_waiting(past))))


def last_start(lines: Iterable[Line]) -> SessionStart | None:
    """How a session was started last."""
    starts = [line.event for line in lines if line.type == SessionStart.type]
    return next((event for event in reversed(starts) if isinstance(event, SessionStart)), None)


def last_update(lines: Iterable[Line]) -> SessionUpdate:
    """What a session said of itself last: its title, and the model that was chosen in it, if it has that one still."""
    title = model = None
    for line in lines:
        match line.event if line.type in (SessionStart.type, SessionUpdate.type) else None:
            case SessionStart(model=started):
                model = model if model == started else None
            case SessionUpdate() as update:
                title, model = update.title or title, update.model or model
    return SessionUpdate(title, model)


def restored(message: Message) -> Message:
    """A message as a provider may get it back; what it wants as it was must not have lost a secret."""
    return replace(message, native=None) if has_mark(message.native) else message


def _waiting(past: Past) -> Iterator[tuple[str, str]]:
    """The calls further down, each by task and id, that wait for a worker that waits for a decision."""
    for child in (child for called in past.children.values() for child in called):
        yield from ((child.delegation, call) for call in child.past.children)
        yield from _waiting(child.past)


def _in_flight_in_children(lines: tuple[Line, ...], waiting: Container[tuple[str, str]]) -> frozenset[str]:
    """Identities of calls of child workers that may have run; a later one that came to an end settles it."""
    started: dict[tuple[str, str], str] = {}
    found: dict[tuple[str, str], str] = {}
    for line in lines:
        if line.delegation is None:
            continue
        match line.event:
            case ToolStarted() as call:
                started[line.delegation, call.tool_call_id] = call_identity(call.tool_name, call.args)
            case ApprovalDecided(approved=True) as decided:
                key = line.delegation, decided.tool_call_id
                if key in started and key not in waiting:
                    found[key] = started[key]
            case ToolResult() as result if result.status != "interrupted":
                settled = started.get((line.delegation, result.tool_call_id))
                found = {each: identity for each, identity in found.items() if identity != settled}
    return frozenset(found.values())


class _Reader:
    """Takes the lines of one worker in order."""

    def __init__(self, void: Container[int] = ()) -> None:
        self.void = void
        self.messages: list[Message] = []
        self.before: dict[int, tuple[Message, ...]] = {}
        """By the number of its line: what had been said before a message of the person."""
        self.calls: tuple[ToolCall, ...] = ()
        self.results: dict[str, CallResult] = {}
        self.requests: dict[str, Pending] = {}
        self.delegated: dict[str, dict[str, tuple[str, WorkerUpdate]]] = {}
        """By call and task: the worker that has it, and its last update."""
        self.inner: dict[str, ToolCall] = {}
        """Calls of tools that are open, the outer ones first."""
        self.in_flight: dict[str, str] = {}
        self.consented: set[str] = set()
        self.counted: tuple[int, int] | None = None
        self.mid_sentence = False
        self.ended = False
        self.stop: StopReason = "end"
        self.environment: str | None = None
        self.last_environment: str | None = None
        self.tools: tuple[str, ...] = ()

    def take(self, line: Line) -> None:
        event: AnyEvent = line.event
        match event:
            case MessageEvent():
                self.message(event, line.seq)
            case ApprovalRequired(request=request) if any(request.tool_call_id == call.id for call in self.calls):
                pending = Pending(request.request_id, request.fingerprint, request.stamp)
                self.requests[request.tool_call_id] = pending
            case ApprovalResponse():
                self.answered(event, line)
            case ApprovalDecided():
                self.decided(event, line)
            case ToolResult():
                self.result(event)
            case ContextUsage():
                self.made_room(event)
            case SessionEnd():
                self.ended = True
            case TurnEndEvent():
                self.stop = event.stop
            case ToolStarted(parent_call_id=parent) if parent is not None:
                call = ToolCall(event.tool_call_id, event.tool_name, dict(event.args), parent=parent)
                self.inner[call.id] = call
            case TurnStart():
                self.environment, self.tools = event.environment or self.environment, event.tools or self.tools
            case SessionStart() | SessionUpdate() | ToolStarted() | WorkerUpdate():
                pass
            case Streaming() | ToolOutput() | StatusEvent() | InputPrompt() | UserInput() | Interrupt() | OtherEvent():
                pass
            case ApprovalRequired():  # a connection of a command, which cannot wait for an answer
                pass
            case ManualToolsAvailable() | ManualToolInvoke() | NetworkAccess() | CommandEvent() | GrantsEvent():
                pass
            case ModeChanged() | CommandTried():
                pass
            case _:
                assert_never(event)

    def message(self, event: MessageEvent, seq: int) -> None:
        self.close_turn()
        message = restored(event.message)
        if message.role == "user":
            self.before[seq] = tuple(self.messages)
        if event.summary_of is not None:
            self.messages[: event.summary_of] = [message]
            self.counted = None
            return
        self.messages.append(message)
        self.last_environment = event.environment or self.last_environment
        self.calls, self.mid_sentence = message.calls, event.cut_off
        self.ended, self.stop = False, "end"

    def close_turn(self) -> None:
        """The results of a turn stand together, in the order of its calls."""
        if self.calls:
            in_flight = frozenset(self.in_flight.values())
            results = [self.results.get(call.id) or interrupted_result(call, in_flight) for call in self.calls]
            self.messages.append(Message("tool", results=tuple(results)))
        self.calls, self.results, self.requests, self.delegated, self.inner = (), {}, {}, {}, {}
        self.consented.clear()

    def answered(self, event: ApprovalResponse, line: Line) -> None:
        if event.decision.approved and line.seq in self.void:
            return
        for call, pending in self.requests.items():
            if pending.request_id == event.request_id:
                said = event.decision
                decision = ApprovalDecision(said.approved, note=said.note, via=said.via)
                self.requests[call] = replace(pending, answer=decision)

    def decided(self, event: ApprovalDecided, line: Line) -> None:
        self.requests.pop(event.tool_call_id, None)
        if event.approved and line.seq not in self.void:
            self.consented.add(event.tool_call_id)
        calls = (*self.calls, *self.inner.values())
        call = next((call for call in calls if call.id == event.tool_call_id), None)
        if call is not None and event.approved:
            self.in_flight[call.id] = call_identity(call.name, call.args)

    def result(self, event: ToolResult) -> None:
        call, identity = event.tool_call_id, self.in_flight.get(event.tool_call_id)
        self.inner.pop(call, None)
        if any(call == known.id for known in self.calls):
            failed = event.status != "success"
            self.results[call] = CallResult.of(call, event.tool_name, event.value, is_error=failed)
            self.requests.pop(call, None)
        if identity is not None and event.status != "interrupted":
            self.in_flight = {each: other for each, other in self.in_flight.items() if other != identity}

    def made_room(self, event: ContextUsage) -> None:
        """Usage is told after a turn, and where room is made before the next one, when all calls have their results."""
        if all(call.id in self.results for call in self.calls):
            self.close_turn()
        if event.rewound is not None:
            self.messages = list(self.before.get(event.rewound, ()))
        if event.cleared:
            self.messages, self.last_environment = [], None
        if elided := frozenset(event.elided or ()):
            self.messages = [without(message, elided) for message in self.messages]
        anew = event.cleared or event.rewound is not None
        self.counted = None if anew else (event.used, len(self.messages))

    def past(self, lines: tuple[Line, ...]) -> Past:
        """A turn with requests to decide, here or further down, is still open; any other is over, with what it has."""
        missing = tuple(call for call in self.calls if call.id not in self.results)
        inner = tuple(reversed(self.inner.values()))
        calls, results, pending = self.calls, self.results, self.requests
        start = partial(self.children_of, lines=lines)
        called = {call.id: start(call) for call in missing}
        children = {call: found for call, found in called.items() if any(each.past.calls for each in found)}
        ended = [*(found for call, found in called.items() if call not in children), *map(start, inner)]
        lost = tuple(each for found in ended for each in found if each.open)
        if not pending and not children:
            self.close_turn()
            calls, results = (), {}
        for call in children:
            self.in_flight.pop(call, None)
        return Past(
            messages=tuple(self.messages),
            calls=calls,
            results=results,
            pending=pending,
            cut_off=inner if calls else (*inner, *missing),
            in_flight=frozenset(self.in_flight.values()),
            counted=self.counted,
            children=children,
            lost=lost,
            consented=frozenset(self.consented.intersection(children)),
            mid_sentence=self.mid_sentence,
            reply=self.reply(),
            environment=self.environment,
            last_environment=self.last_environment or self.environment,
            tools=self.tools,
        )

    def reply(self) -> tuple[Message, StopReason] | None:
        """The last answer, if nothing came after it, not even the end of the session."""
        last = self.messages[-1] if self.messages else None
        if self.ended or self.mid_sentence or last is None or last.role != "assistant" or last.calls:
            return None
        return last, self.stop

    def children_of(self, call: ToolCall, lines: tuple[Line, ...]) -> tuple[PastChild, ...]:
        """The workers that a call started."""
        started = self.delegated.get(call.id, {}).items()
        return tuple(self.read_child(lines, delegation, worker, update) for delegation, (worker, update) in started)

    def read_child(self, lines: tuple[Line, ...], delegation: str, worker: str, update: WorkerUpdate) -> PastChild:
        past = read_past(lines, delegation, void=self.void)
        answer = past.messages[-1].text if update.status == "completed" and past.messages else None
        open = update.status in ("started", "resumed", "parked")
        return PastChild(delegation, worker, update.tool_call_id, past, answer, open)


def without(message: Message, elided: Collection[str]) -> Message:
    """The message without the results of these calls; the very same one where it has none of them."""
    if not any(result.call_id in elided for result in message.results):
        return message
    results = [
        replace(result, text=ELIDED_RESULT, files=()) if result.call_id in elided else result
        for result in message.results
    ]
    return replace(message, results=tuple(results))


def interrupted_result(call: ToolCall, in_flight: Container[str]) -> CallResult:
    """The result of a call that has none; ``in_flight`` are identities of calls that may have run."""
    return CallResult(call.id, call.name, cut_off_text(call, in_flight), is_error=True)


def cut_off_text(call: ToolCall, in_flight: Container[str]) -> str:
    """What the model is told of a call that the session was cut off with."""
    return UNCERTAIN_CALL if call_identity(call.name, call.args) in in_flight else INTERRUPTED_CALL
