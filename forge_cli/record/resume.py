"""The state of a session for resuming it: its history, and everything that was open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from forge_cli.core.approval import ApprovalDecision
from forge_cli.core.calls import ToolCall
from forge_cli.core.events import CLIENTS, OTHER_TOOLS
from forge_cli.core.messages import CallResult, Message, StopReason
from forge_cli.core.wire import JsonObject
from forge_cli.record.line import Line
from forge_cli.record.state import CallState, SessionState, WorkerState, fold_lines

if TYPE_CHECKING:
    from forge_cli.record.log import Log
    from forge_cli.record.recorder import RecordLog


class Pending(Struct, frozen=True):
    """A request without a decision.

    It may have an answer that was given while no process used the session.
    """

    request_id: str
    fingerprint: str | None = None
    stamp: str | None = None
    answer: ApprovalDecision | None = None


class Past(Struct, frozen=True):
    """The state of a session so far. If ``calls`` are open, a resumed session begins with them."""

    messages: tuple[Message, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    results: Mapping[str, CallResult] = field(default_factory=dict)
    """The results of the last turn that were recorded before the session ended."""
    pending: Mapping[str, Pending] = field(default_factory=dict)
    """Requests without a decision, by call."""
    cut_off: tuple[ToolCall, ...] = ()
    """Calls of the last turn, and of tools in it, whose result can only be ``interrupted``."""
    in_flight: frozenset[str] = frozenset()
    """Identities of approved calls without a result, also of child workers: they may have run."""
    counted: tuple[int, int] | None = None
    """The last token count of the history, and the number of messages at that time."""
    children: Mapping[str, tuple[PastChild, ...]] = field(default_factory=dict)
    """By open call: the child workers that it started, in order; one of them waits for a decision.
    """
    lost: tuple[PastChild, ...] = ()
    """Child workers that were interrupted together with their calls."""
    consented: frozenset[str] = frozenset()
    """Calls of the last turn that stay approved while they wait for a child worker."""
    mid_sentence: bool = False
    """True if the model was stopped while it answered."""
    reply: tuple[Message, StopReason] | None = None
    """The last answer of the model and its stop reason, if the session has no end after it."""
    environment: str | None = None
    """The environment as described in the system prompt."""
    last_environment: str | None = None
    """The environment as last described to the model."""
    tools: tuple[str, ...] = ()
    """The tools that were offered in the last turn."""

    @property
    def unfinished(self) -> bool:
        """True if the model or a call has to go on, or the end was lost.

        False if the user comes next.
        """
        open_end = bool(self.messages) and (
            self.messages[-1].role != "assistant" or self.mid_sentence
        )
        return bool(self.calls) or open_end or self.reply is not None


class PastChild(Struct, frozen=True):
    """A child worker: the ID of its task, and its state."""

    delegation: str
    worker: str
    call: str
    """The call of the parent worker that started it."""
    past: Past
    answer: str | None = None
    """Its last message, if it completed its task."""
    open: bool = False
    """True if no end of it was recorded."""

    @property
    def task(self) -> str:
        return self.past.messages[0].text if self.past.messages else ""


class Resumed(Struct, frozen=True):
    """A session to be resumed: its state, and the last line of its log."""

    past: Past
    last: Line | None = None
    """None for a child worker, which is part of its parent's session."""
    forked_from: str | None = None
    model: str | None = None
    """The last model, used again if the user names none."""
    chosen_model: str | None = None
    """The model that the user chose during the session; it overrides the worker's."""
    output_schema: JsonObject | None = None
    """The schema for the answer, which still applies if the same task is resumed."""
    title: str | None = None
    read_only: bool = False
    """True if the session was started or resumed as read-only, which it then stays."""

    @property
    def session_id(self) -> str | None:
        return self.last.session if self.last else None


def read_past(lines: Iterable[Line]) -> Past:
    """Return the state of a session from its lines."""
    return past_of(fold_lines(lines))


def past_of(state: SessionState) -> Past:
    """Return the state of the root worker for resuming.

    The session state may take more lines later.
    """
    root = state.workers.get(None)
    past = Past()
    if root:
        past = replace(_past(root), reply=_reply(root))
    waiting = set(_waiting_calls(past))
    below = (identity for key, identity in state.in_flight_below.items() if key not in waiting)
    return replace(past, in_flight=past.in_flight.union(below))


def _past(worker: WorkerState) -> Past:
    """Return the state of a worker.

    A turn with pending requests, here or in child workers, stays open; any other turn ends with the
    results it has.
    """
    missing = [call for call in worker.turn.values() if call.result is None]
    # Innermost first, since an outer call ends only after the calls that it made.
    inner = list(reversed(worker.inner.values()))
    pending: dict[str, Pending] = {}
    for call in missing:
        if request := call.open_request:
            pending[call.call.id] = Pending(
                request.request_id, request.fingerprint, request.stamp, call.answer
            )
    children: dict[str, tuple[PastChild, ...]] = {}
    ended: list[PastChild] = []
    for call in missing:
        found = _children(call)
        if any(each.past.calls for each in found):
            children[call.call.id] = found
        else:
            ended += found
    for call in inner:
        ended += _children(call)
    messages = worker.messages
    calls: list[ToolCall] = []
    results: dict[str, CallResult] = {}
    if pending or children:
        cut_off = inner
        for call in worker.turn.values():
            calls.append(call.call)
            if result := call.as_result():
                results[call.call.id] = result
    else:
        messages = [*messages, *worker.turn_results()]
        cut_off = [*inner, *missing]
    return Past(
        messages=tuple(messages),
        calls=tuple(calls),
        results=results,
        pending=pending,
        cut_off=tuple(call.call for call in cut_off),
        in_flight=frozenset(
            identity for call, identity in worker.in_flight.items() if call not in children
        ),
        counted=worker.counted,
        children=children,
        lost=tuple(each for each in ended if each.open),
        consented=frozenset(
            call.call.id for call in missing if call.consented and call.call.id in children
        ),
        mid_sentence=worker.mid_sentence,
        environment=worker.environment,
        last_environment=worker.last_environment or worker.environment,
        tools=worker.tools,
    )


def _reply(root: WorkerState) -> tuple[Message, StopReason] | None:
    """Return the last answer and its stop reason, unless anything came after it."""
    last = root.messages[-1] if root.messages else None
    if (
        root.turn
        or root.ended
        or root.mid_sentence
        or last is None
        or last.role != "assistant"
        or last.calls
    ):
        return None
    return last, root.stop


def _children(call: CallState) -> tuple[PastChild, ...]:
    """Return the child workers that a call started."""
    return tuple(_child(call.call.id, task, worker) for task, worker in call.children.items())


def _child(call: str, task: str, worker: WorkerState) -> PastChild:
    past = _past(worker)
    status = worker.update.status if worker.update else None
    answer: str | None = None
    if status == "completed" and past.messages:
        answer = past.messages[-1].text
    return PastChild(
        task, worker.name, call, past, answer, open=status in ("started", "resumed", "parked")
    )


def _waiting_calls(past: Past) -> Iterator[tuple[str, str]]:
    """Yield the calls of child workers, by task and ID, that wait for a worker of their own."""
    for called in past.children.values():
        for child in called:
            for call in child.past.children:
                yield child.delegation, call
            yield from _waiting_calls(child.past)


def resume_of(read: Log, log: RecordLog | None) -> Resumed:
    """Return the session of a log for resuming it.

    Only a proven approval counts, and in a fork or without a log none does: an approval is used
    once, and a session that is not saved could not record its use.
    """
    if log:
        void = log.proofs.unproven(read.lines)
    else:
        void = frozenset(line.seq for line in read.lines if line.is_consent)
    state = fold_lines(read.lines, void)
    resumed = Resumed(
        past_of(state), read.lines[-1], chosen_model=state.chosen_model, title=state.title
    )
    start = state.start
    if start is None:
        return resumed
    # These are not models: such a session has only calls of other programs.
    model = None if start.model in (CLIENTS, OTHER_TOOLS) else start.model
    schema: JsonObject | None = None
    if start.output_schema is not None:
        schema = dict(start.output_schema)
    return replace(resumed, model=model, output_schema=schema, read_only=start.read_only)
