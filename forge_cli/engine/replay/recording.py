"""A session read to be repeated: its parts, the turns of each worker in them, and the result of every call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from forge_cli.core import events
from forge_cli.core.calls import ToolCall, ToolOutcome
from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.messages import Message, TurnEnd
from forge_cli.core.phrases import ENVIRONMENT_CHANGED, SUMMARY_INSTRUCTIONS
from forge_cli.core.wire import JsonObject
from forge_cli.record.calls import PastVerdict
from forge_cli.record.line import Line
from forge_cli.record.log import Log, damage_of, find_record, missing_line, read_readable
from forge_cli.record.resume import Past, past_of
from forge_cli.record.state import SessionState, restored_message


@dataclass
class RecordedCall:
    """The log of a call; a verdict or a result that it never came to is None."""

    decided: Line | None = None
    """The line that settled it, or the request that was left open."""
    result: Line | None = None
    started: events.ToolStarted | None = None

    def settle(self, line: Line) -> None:
        """The first verdict counts; a call that asks again has another one, which could not be foreseen."""
        if self.decided is None or self.decided.type != line.type:
            self.decided = line

    @property
    def verdict(self) -> PastVerdict | None:
        event = self.decided.event if self.decided else None
        return (
            PastVerdict.of(event)
            if isinstance(event, events.ApprovalDecided | events.ApprovalRequired)
            else None
        )

    @property
    def ended(self) -> events.ToolResult | None:
        event = self.result.event if self.result else None
        return event if isinstance(event, events.ToolResult) else None

    def outcome(self, call: ToolCall) -> ToolOutcome | None:
        ended, verdict = self.ended, self.verdict
        if ended is None:
            return None
        return ToolOutcome(
            call, ended.status, ended.value, error=ended.error, by=verdict.by if verdict else None
        )


@dataclass
class RecordedTurn:
    """One turn of the model: what was new in its request, what it answered, and the outcomes of its calls.

    The first of a worker has no request and no answer: to it belong the calls that a session was left with.
    """

    number: int = 0
    request: events.TurnStart | None = None
    said: tuple[Message, ...] = ()
    """The messages to the model since the turn before."""
    seq: int = 1
    """The number of the line with its request."""
    reply: Message | None = None
    end: TurnEnd | None = None
    calls: dict[str, RecordedCall] = field(default_factory=dict)

    @property
    def tools(self) -> tuple[str, ...]:
        return self.request.tools if self.request else ()

    def call(self, id: str) -> RecordedCall:
        return self.calls.setdefault(id, RecordedCall())


@dataclass
class Track:
    """The work of one worker in one part: the turns of its model, and the tasks that its calls gave to others."""

    turns: list[RecordedTurn] = field(default_factory=lambda: [RecordedTurn()])
    given: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """By call: name and delegation of the workers that it started."""
    failed: set[str] = field(default_factory=set)
    """Calls that started a worker which did not complete its task."""
    window: int | None = None
    """How much the model could hold."""
    environment: str | None = None
    """The first environment that the model was told."""

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that the first turn was offered."""
        return next((turn.tools for turn in self.turns if turn.tools), ())


class RecordedPart(Struct, frozen=True):
    """From one task, or from one start of the session, to the next; ``past`` is what it found."""

    lines: tuple[Line, ...]
    past: Past
    last: Line | None
    """The line before."""
    read_only: bool = False
    guided: bool = False
    """Was the model told what AGENTS.md says?"""

    @property
    def task(self) -> Message:
        """The task of the worker; empty where the session continued by itself."""
        first = next((turn for turn in self.track().turns if turn.request), None)
        said = first.said if first and first.number == 1 else ()
        tasks = (message for message in said if not message.text.startswith(ENVIRONMENT_CHANGED))
        return next(tasks, Message("user"))

    def track(self, delegation: str | None = None) -> Track:
        return _track(self.lines, delegation)

    @property
    def aside(self) -> bool:
        """Is it nothing but a summary that somebody asked for between two tasks?"""
        requests = [turn.request for turn in self.track().turns if turn.request]
        return not self.task.text and [each.system for each in requests] == [SUMMARY_INSTRUCTIONS]

    @property
    def empty(self) -> bool:
        """Did it end before the model or a call had its turn?"""
        turns = self.track().turns
        return len(turns) == 1 and not turns[0].calls


class Recording(Struct, frozen=True):
    """A whole session: where it came from, and its parts."""

    path: Path
    session: str
    worker: str
    model: str
    workspace: str
    worker_file: str | None
    output_schema: JsonObject | None
    parts: tuple[RecordedPart, ...]
    damage: str | None = None
    """The difference to what was written, as a sentence."""


def open_recording(name: str) -> Recording:
    """A session by its id, or by the path of a record."""
    log = read_readable(find_record(name))
    if log.bad and log.lines:
        raise log.bad[0]
    return read_recording(log)


def read_recording(log: Log) -> Recording:
    """Read a log to be repeated; one that is not whole, or in which no model was asked, is an error."""
    first = next((line for line in log.lines if line.type == events.SessionStart.type), None)
    if first is None:
        raise WorkerError(
            Mark(str(log.path)),
            "this is not a record of a session",
            hint="forge run --record makes one",
        )
    if first.version != events.VERSION:
        problem = (
            f"this record has log version {first.version}, which this version of forge cannot read"
        )
        raise WorkerError(Mark(str(log.path)), problem)
    if missing := missing_line(log):
        hint = "what is missing cannot be repeated; forge sessions show shows what there is"
        raise WorkerError(Mark(str(log.path)), f"the record is not whole: {missing}", hint=hint)
    start = next(
        event
        for event in [line.event for line in log.lines]
        if isinstance(event, events.SessionStart)
    )
    parts = tuple(part for part in _parts(log.lines) if not part.empty and not part.aside)
    if not parts:
        raise WorkerError(Mark(str(log.path)), "no turn of a model stands in this record")
    if not parts[0].past.messages and not any(
        isinstance(line.event, events.MessageEvent) and _is_said(line.event) for line in log.lines
    ):
        raise WorkerError(
            Mark(str(log.path)), "the record is not whole: what the worker was told is missing"
        )
    return Recording(
        path=log.path,
        session=first.session,
        worker=first.worker,
        model=start.model,
        workspace=start.workspace,
        worker_file=start.worker_file,
        output_schema=dict(start.output_schema) if start.output_schema is not None else None,
        parts=parts,
        damage=damage_of(log),
    )


def _parts(lines: Sequence[Line]) -> Iterator[RecordedPart]:
    state, starts = SessionState(), [*_starts(lines), len(lines)]
    for line in lines[: starts[0]]:
        state.take(line)
    for begin, end in pairwise(starts):
        past, last = past_of(state), lines[begin - 1] if begin else None
        for line in lines[begin:end]:
            state.take(line)
        flags = (
            bool(state.start and state.start.read_only),
            bool(state.start and state.start.guidance),
        )
        yield RecordedPart(tuple(lines[begin:end]), past, last, *flags)


def _starts(lines: Sequence[Line]) -> Iterator[int]:
    """The places where a session starts, is resumed or gets another task: turns are counted from one again."""
    said, fresh = None, False
    for index, line in enumerate(lines):
        match line.event if line.delegation is None else None:
            case events.SessionStart():
                yield index
                said, fresh = None, True
            case events.MessageEvent() as event if _is_said(event) and said is None:
                said = index
            case events.TurnStart(turn=turn):
                if turn == 1 and not fresh:
                    yield index if said is None else said
                said, fresh = None, False


def _is_said(event: events.MessageEvent) -> bool:
    """Is it a message for the model, and not one that stands for others?"""
    return event.message.role == "user" and event.summary_of is None


def _track(lines: Sequence[Line], delegation: str | None) -> Track:
    track, said = Track(), list[Message]()
    for line in lines:
        match line.event:
            case events.WorkerUpdate() as update if update.within == delegation:
                _note_task(track, update, line)
            case _ if line.delegation == delegation:
                _take(track, said, line)
    return track


def _note_task(track: Track, update: events.WorkerUpdate, line: Line) -> None:
    call = update.tool_call_id
    if update.status in ("started", "resumed"):
        track.given.setdefault(call, []).append((line.worker, line.delegation or ""))
    elif update.status != "completed":
        track.failed.add(call)


def _take(track: Track, said: list[Message], line: Line) -> None:
    turn = track.turns[-1]
    match line.event:
        case events.TurnStart() as request:
            track.environment = track.environment or request.environment
            track.turns.append(RecordedTurn(request.turn, request, tuple(said), line.seq))
            said.clear()
        case events.MessageEvent(message=message) as event:
            track.environment = track.environment or event.environment
            _hear(turn, said, restored_message(message), event)
        case events.ContextUsage(window=window):
            track.window = window or track.window
        case events.TurnEndEvent(stop=stop, usage=usage):
            if turn.reply is None:
                turn.reply = Message("assistant")
                _was_apart(turn, said)
            turn.end = TurnEnd(stop, usage, turn.reply.native)
        case events.ToolStarted(tool_call_id=call) as started:
            turn.call(call).started = started
        case events.ApprovalRequired(request=request):
            turn.call(request.tool_call_id).settle(line)
        case events.ApprovalDecided(tool_call_id=call):
            turn.call(call).settle(line)
        case events.ToolResult(tool_call_id=call):
            turn.call(call).result = line


def _hear(
    turn: RecordedTurn, said: list[Message], message: Message, event: events.MessageEvent
) -> None:
    if _is_said(event):
        said.append(message)
    elif message.role == "assistant":
        turn.reply = message
    elif message.summary:
        turn.reply = Message("assistant", message.summary.text)
        _was_apart(turn, said)


def _was_apart(turn: RecordedTurn, said: list[Message]) -> None:
    """A turn beside the conversation, for a summary: what was said before it is heard in the one that follows."""
    said[:0], turn.said = turn.said, ()
