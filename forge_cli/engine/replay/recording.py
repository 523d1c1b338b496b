"""Recorded sessions for replay: their parts, turns and calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import cast

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
    """The lines of a call; its verdict or result is None if there was none."""

    decided: Line | None = None
    """The line that settled it, or the request that was left open."""
    result: Line | None = None
    started: events.ToolStarted | None = None

    def settle(self, line: Line) -> None:
        """Take a decision or a request; only the first one counts.

        A call that asks again has a later decision, which a replay cannot foresee.
        """
        if self.decided is None or self.decided.type != line.type:
            self.decided = line

    @property
    def verdict(self) -> PastVerdict | None:
        event = self.decided.event if self.decided else None
        if isinstance(event, events.ApprovalDecided | events.ApprovalRequired):
            return PastVerdict.of(event)
        return None

    @property
    def ended(self) -> events.ToolResult | None:
        event = self.result.event if self.result else None
        return event if isinstance(event, events.ToolResult) else None

    def outcome(self, call: ToolCall) -> ToolOutcome | None:
        ended = self.ended
        if ended is None:
            return None
        by = self.verdict.by if self.verdict else None
        return ToolOutcome(call, ended.status, ended.value, error=ended.error, by=by)


@dataclass
class RecordedTurn:
    """A turn of the model: its new messages, its answer, and its calls.

    The first turn of a worker has no request and no answer: it has the open calls of a resumed
    session.
    """

    number: int = 0
    request: events.TurnStart | None = None
    said: tuple[Message, ...] = ()
    """The messages to the model since the last turn."""
    seq: int = 1
    """The number of the line of its request."""
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
    """The work of one worker in one part of a session: its turns and its child workers."""

    turns: list[RecordedTurn] = field(default_factory=lambda: [RecordedTurn()])
    given: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """By call: the name and delegation of each worker that it started."""
    failed: set[str] = field(default_factory=set)
    """Calls that started a worker which did not complete its task."""
    window: int | None = None
    """The size of the model's context window."""
    environment: str | None = None
    """The environment that the model was first given."""

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that were offered in the first turn."""
        return next((turn.tools for turn in self.turns if turn.tools), ())


class RecordedPart(Struct, frozen=True):
    """A part of a session, from one task or start to the next; ``past`` is the state before it."""

    lines: tuple[Line, ...]
    past: Past
    last: Line | None
    """The line before the part."""
    read_only: bool = False
    guided: bool = False
    """True if the model was given the content of AGENTS.md."""

    @property
    def task(self) -> Message:
        """The task of the worker; empty if the session went on without one."""
        first = next((turn for turn in self.track().turns if turn.request), None)
        if first is None or first.number != 1:
            return Message("user")
        for message in first.said:
            if not message.text.startswith(ENVIRONMENT_CHANGED):
                return message
        return Message("user")

    def track(self, delegation: str | None = None) -> Track:
        return _track(self.lines, delegation)

    @property
    def aside(self) -> bool:
        """True if the part is only a summary that the user asked for."""
        requests = [turn.request for turn in self.track().turns if turn.request]
        return not self.task.text and [each.system for each in requests] == [SUMMARY_INSTRUCTIONS]

    @property
    def empty(self) -> bool:
        """True if it ended before the first turn and the first call."""
        turns = self.track().turns
        return len(turns) == 1 and not turns[0].calls


class Recording(Struct, frozen=True):
    """A recorded session with its parts."""

    path: Path
    session: str
    worker: str
    model: str
    workspace: str
    worker_file: str | None
    output_schema: JsonObject | None
    parts: tuple[RecordedPart, ...]
    damage: str | None = None
    """A description of the damage of its log, or None."""


def open_recording(name: str) -> Recording:
    """Return a session by its ID or the path of a record."""
    log = read_readable(find_record(name))
    # Without a readable line it is no record at all, which is reported below.
    if log.bad and log.lines:
        raise log.bad[0]
    return read_recording(log)


def read_recording(log: Log) -> Recording:
    """Return a session from its log.

    Raise WorkerError if it is incomplete or has no turn of a model.
    """
    first = next((line for line in log.lines if line.type == events.SessionStart.type), None)
    if first is None:
        raise WorkerError(
            Mark(str(log.path)),
            "not a session log",
            hint="forge run --record makes one",
        )
    if first.version != events.VERSION:
        problem = (
            f"this record has log version {first.version}, which this version of forge cannot read"
        )
        raise WorkerError(Mark(str(log.path)), problem)
    if missing := missing_line(log):
        hint = "forge sessions show prints the remaining lines"
        raise WorkerError(Mark(str(log.path)), f"the record is incomplete: {missing}", hint=hint)
    start = cast(events.SessionStart, first.event)
    parts = tuple(part for part in _parts(log.lines) if not part.empty and not part.aside)
    if not parts:
        raise WorkerError(Mark(str(log.path)), "this record has no turn of a model")
    if not parts[0].past.messages and not _has_task(log.lines):
        raise WorkerError(Mark(str(log.path)), "the record is incomplete: it has no task")
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


def _has_task(lines: Sequence[Line]) -> bool:
    return any(
        isinstance(line.event, events.MessageEvent) and _is_user_message(line.event)
        for line in lines
    )


def _parts(lines: Sequence[Line]) -> Iterator[RecordedPart]:
    state = SessionState()
    starts = [*_starts(lines), len(lines)]
    for line in lines[: starts[0]]:
        state.take(line)
    for begin, end in pairwise(starts):
        # The state before the part, so it has to be read before the lines of the part are taken.
        past = past_of(state)
        last = lines[begin - 1] if begin else None
        for line in lines[begin:end]:
            state.take(line)
        read_only = bool(state.start and state.start.read_only)
        guided = bool(state.start and state.start.guidance)
        yield RecordedPart(tuple(lines[begin:end]), past, last, read_only, guided)


def _starts(lines: Sequence[Line]) -> Iterator[int]:
    """Yield the indexes where the session starts, is resumed, or gets another task."""
    said: int | None = None
    is_fresh = False
    for index, line in enumerate(lines):
        # Only the root worker begins a part.
        match line.event if line.delegation is None else None:
            case events.SessionStart():
                yield index
                said = None
                is_fresh = True
            case events.MessageEvent() as event if _is_user_message(event) and said is None:
                said = index
            case events.TurnStart(turn=turn):
                if turn == 1 and not is_fresh:
                    # A task begins with its message, which is before the turn that reads it.
                    yield index if said is None else said
                said = None
                is_fresh = False


def _is_user_message(event: events.MessageEvent) -> bool:
    """Return True if a message is for the model, and no summary of others."""
    return event.message.role == "user" and event.summary_of is None


def _track(lines: Sequence[Line], delegation: str | None) -> Track:
    track = Track()
    said: list[Message] = []
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
            _take_message(turn, said, restored_message(message), event)
        case events.ContextUsage(window=window):
            track.window = window or track.window
        case events.TurnEndEvent(stop=stop, usage=usage):
            if turn.reply is None:
                turn.reply = Message("assistant")
                _mark_as_summary(turn, said)
            turn.end = TurnEnd(stop, usage, turn.reply.native)
        case events.ToolStarted(tool_call_id=call) as started:
            turn.call(call).started = started
        case events.ApprovalRequired(request=request):
            turn.call(request.tool_call_id).settle(line)
        case events.ApprovalDecided(tool_call_id=call):
            turn.call(call).settle(line)
        case events.ToolResult(tool_call_id=call):
            turn.call(call).result = line


def _take_message(
    turn: RecordedTurn, said: list[Message], message: Message, event: events.MessageEvent
) -> None:
    if _is_user_message(event):
        said.append(message)
    elif message.role == "assistant":
        turn.reply = message
    elif message.summary:
        turn.reply = Message("assistant", message.summary.text)
        _mark_as_summary(turn, said)


def _mark_as_summary(turn: RecordedTurn, said: list[Message]) -> None:
    """Mark a turn as a summary: the messages before it belong to the next turn."""
    said[:0] = turn.said
    turn.said = ()
