"""The state of a session for those who resume it: its history, and what was still open when it ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
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
    """A request that is not decided, or that was answered while no process worked on the session."""

    request_id: str
    fingerprint: str | None = None
    stamp: str | None = None
    answer: ApprovalDecision | None = None


class Past(Struct, frozen=True):
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
    """An answer of the model, and why it stopped, where the session has no line about its end."""
    environment: str | None = None
    """The place of the worker, as the system prompt says it."""
    last_environment: str | None = None
    """The place of the worker, as the model was told last."""
    tools: tuple[str, ...] = ()
    """Those that the last turn was offered."""

    @property
    def unfinished(self) -> bool:
        """Is it the model's turn, or a call's, or was its end lost? Otherwise somebody has to say something first."""
        open_end = bool(self.messages) and (
            self.messages[-1].role != "assistant" or self.mid_sentence
        )
        return bool(self.calls) or open_end or self.reply is not None


class PastChild(Struct, frozen=True):
    """A worker that was called: the id of its task, and its state."""

    delegation: str
    worker: str
    call: str
    """By which its caller called it."""
    past: Past
    answer: str | None = None
    """The last words of the child, if it came to its end."""
    open: bool = False
    """Nothing was heard of its end."""

    @property
    def task(self) -> str:
        return self.past.messages[0].text if self.past.messages else ""


class Resumed(Struct, frozen=True):
    """A session to be resumed: its state, and the last line of its log."""

    past: Past
    last: Line | None = None
    """None for a child worker, whose session is that of its parent."""
    forked_from: str | None = None
    model: str | None = None
    """The model that answered before; it does so again where the user names none."""
    chosen_model: str | None = None
    """The model that the person chose in the middle of it; it counts before that of the worker."""
    output_schema: JsonObject | None = None
    """The schema that the answer had to fit; it still has to, where the same task is resumed."""
    title: str | None = None
    """The name of the session."""
    read_only: bool = False
    """Was it begun, or resumed, as one in which nothing can be changed? Then it stays so."""

    @property
    def session_id(self) -> str | None:
        return self.last.session if self.last else None


def read_past(lines: Iterable[Line]) -> Past:
    """Read a session back."""
    return past_of(fold_lines(lines))


def past_of(state: SessionState) -> Past:
    """A session as its root worker finds it when it is resumed; the state may take further lines later."""
    root = state.workers.get(None)
    past = replace(_past(root), reply=_reply(root)) if root else Past()
    waiting = set(_waiting(past))
    below = (identity for key, identity in state.in_flight_below.items() if key not in waiting)
    return replace(past, in_flight=past.in_flight.union(below))


def _past(worker: WorkerState) -> Past:
    """A turn with requests to decide, here or further down, is still open; any other is over, with what it has."""
    missing = [call for call in worker.turn.values() if call.result is None]
    inner = list(reversed(worker.inner.values()))
    pending = {
        call.call.id: Pending(request.request_id, request.fingerprint, request.stamp, call.answer)
        for call in missing
        if (request := call.open_request)
    }
    called = {call.call.id: _children(call) for call in missing}
    children = {
        call: found for call, found in called.items() if any(each.past.calls for each in found)
    }
    ended = [
        *(found for call, found in called.items() if call not in children),
        *map(_children, inner),
    ]
    is_open = bool(pending or children)
    results = {call.call.id: call.as_result() for call in worker.turn.values()} if is_open else {}
    return Past(
        messages=(*worker.messages, *(() if is_open else worker.turn_results())),
        calls=tuple(call.call for call in worker.turn.values()) if is_open else (),
        results={id: result for id, result in results.items() if result},
        pending=pending,
        cut_off=tuple(call.call for call in (inner if is_open else [*inner, *missing])),
        in_flight=frozenset(
            identity for call, identity in worker.in_flight.items() if call not in children
        ),
        counted=worker.counted,
        children=children,
        lost=tuple(each for each in chain.from_iterable(ended) if each.open),
        consented=frozenset(
            call.call.id for call in missing if call.consented and call.call.id in children
        ),
        mid_sentence=worker.mid_sentence,
        environment=worker.environment,
        last_environment=worker.last_environment or worker.environment,
        tools=worker.tools,
    )


def _reply(root: WorkerState) -> tuple[Message, StopReason] | None:
    """The last answer, if nothing came after it, not even the end of the session."""
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
    """The workers that a call started."""
    return tuple(_child(call.call.id, task, worker) for task, worker in call.children.items())


def _child(call: str, task: str, worker: WorkerState) -> PastChild:
    past = _past(worker)
    status = worker.update.status if worker.update else None
    answer = past.messages[-1].text if status == "completed" and past.messages else None
    return PastChild(
        task, worker.name, call, past, answer, open=status in ("started", "resumed", "parked")
    )


def _waiting(past: Past) -> Iterator[tuple[str, str]]:
    """The calls further down, each by task and id, that wait for a worker that waits for a decision."""
    for called in past.children.values():
        for child in called:
            yield from ((child.delegation, call) for call in child.past.children)
            yield from _waiting(child.past)


def resume_of(read: Log, log: RecordLog | None) -> Resumed:
    """The session of a log; a yes counts where it is proven; in a copy, and without a log, none does.

    It holds once, and its use in work that is not kept would not be known later.
    """
    void = (
        log.proofs.unproven(read.lines)
        if log
        else {line.seq for line in read.lines if line.is_consent}
    )
    state = fold_lines(read.lines, void)
    start = state.start
    return Resumed(
        past_of(state),
        read.lines[-1],
        model=start.model if start and start.model not in (CLIENTS, OTHER_TOOLS) else None,
        chosen_model=state.chosen_model,
        output_schema=dict(start.output_schema)
        if start and start.output_schema is not None
        else None,
        title=state.title,
        read_only=bool(start and start.read_only),
    )
