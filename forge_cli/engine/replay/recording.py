"""A session read to be repeated: its parts, the turns of each worker in them, and what came of every call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from forge_cli.core.calls import ToolCall, ToolOutcome
from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.events import VERSION
from forge_cli.core.messages import Message, TurnEnd, Usage
from forge_cli.core.results import from_wire
from forge_cli.core.signature import JsonObject
from forge_cli.core.wire import snake_case
from forge_cli.record.log import Log
from forge_cli.record.messages import read_message
from forge_cli.record.resume import Past, read_past
from forge_cli.record.sound import is_sound


@dataclass
class RecordedCall:
    """What the log says of a call; a verdict or a result that it never came to is None."""

    decided: JsonObject | None = None
    """The line that settled it, or the request that was left open."""
    result: JsonObject | None = None

    def settle(self, line: JsonObject) -> None:
        """The first verdict counts; a call that asks again has another one, which nobody could foresee."""
        if self.decided is None or self.decided["type"] != line["type"]:
            self.decided = line

    def outcome(self, call: ToolCall) -> ToolOutcome | None:
        if self.result is None:
            return None
        by = self.decided.get("by") if self.decided else None
        value = from_wire(self.result["value"])
        return ToolOutcome(call, self.result["status"], value, error=self.result.get("error"), by=by)


@dataclass
class RecordedTurn:
    """One turn of the model: what was new in its request, what it answered, and what became of its calls.

    The first of a worker has no request and no answer: to it belong the calls that a session was left with.
    """

    number: int = 0
    request: JsonObject | None = None
    said: tuple[Message, ...] = ()
    """What was said to the model since the turn before."""
    reply: Message | None = None
    end: TurnEnd | None = None
    calls: dict[str, RecordedCall] = field(default_factory=dict)

    @property
    def tools(self) -> tuple[str, ...]:
        return tuple(self.request.get("tools", ())) if self.request else ()


@dataclass
class Track:
    """What one worker did in one part: the turns of its model, and the tasks that its calls gave to others."""

    turns: list[RecordedTurn] = field(default_factory=lambda: [RecordedTurn()])
    given: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """By call: name and delegation of the workers that it started."""
    failed: set[str] = field(default_factory=set)
    """Calls that started a worker which did not complete its task."""
    window: int | None = None
    """How much the model could hold."""

    @property
    def tools(self) -> frozenset[str]:
        """The tools that the first turn was offered."""
        return frozenset(next((turn.tools for turn in self.turns if turn.tools), ()))


@dataclass(frozen=True)
class RecordedPart:
    """From one task, or from one start of the session, to the next; ``past`` is what it found."""

    lines: tuple[JsonObject, ...]
    past: Past
    last: JsonObject | None
    """The line before."""

    @property
    def task(self) -> Message:
        """What the worker was told; empty where the session went on by itself."""
        first = next((turn for turn in self.track().turns if turn.request), None)
        said = first.said if first and first.number == 1 else ()
        return said[0] if said else Message("user")

    def track(self, delegation: str | None = None) -> Track:
        return _track(self.lines, delegation)

    @property
    def empty(self) -> bool:
        """Did it end before the model or a call had its turn?"""
        turns = self.track().turns
        return len(turns) == 1 and not turns[0].calls


@dataclass(frozen=True)
class Recording:
    """A whole session: where it came from, and its parts."""

    path: Path
    session: str
    worker: str
    model: str
    workspace: str
    worker_file: str | None
    output_schema: JsonObject | None
    parts: tuple[RecordedPart, ...]


def read_recording(log: Log) -> Recording:
    """Read a log to be repeated; one in which no model was asked is an error."""
    start = next((line for line in log.lines if line["type"] == "sessionStart"), None)
    if start is None:
        raise WorkerError(Mark(str(log.path)), "this is no record of a session", hint="forge run --record makes one")
    if start.get("v") != VERSION:
        problem = f"this record is of version {start.get('v')}, which this forge cannot read"
        raise WorkerError(Mark(str(log.path)), problem)
    if broken := next((number for number, line in enumerate(log.lines, 1) if not is_sound(line)), None):
        raise _unreadable(log, broken)
    try:
        parts = tuple(part for part in _parts(log.lines) if not part.empty)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise _unreadable(log) from None
    if not parts:
        raise WorkerError(Mark(str(log.path)), "no turn of a model stands in this record")
    return Recording(
        path=log.path,
        session=start["session"],
        worker=start["worker"],
        model=start["model"],
        workspace=start["workspace"],
        worker_file=start.get("workerFile"),
        output_schema=start.get("outputSchema"),
        parts=parts,
    )


def _unreadable(log: Log, line: int = 1) -> WorkerError:
    problem = f"line {line} of this record lacks what it should have" if line > 1 else "this record cannot be read"
    return WorkerError(Mark(str(log.path), line), problem, hint="record it anew with forge run --record")


def _parts(lines: Sequence[JsonObject]) -> Iterator[RecordedPart]:
    starts = [*_starts(lines), len(lines)]
    for begin, end in pairwise(starts):
        yield RecordedPart(tuple(lines[begin:end]), read_past(lines[:begin]), lines[begin - 1] if begin else None)


def _starts(lines: Sequence[JsonObject]) -> Iterator[int]:
    """Where a session starts or goes on, and where it is given another task: turns are counted anew."""
    said, fresh = None, False
    for index, line in enumerate(lines):
        if "delegation" in line:
            continue
        match line["type"]:
            case "sessionStart":
                yield index
                said, fresh = None, True
            case "message" if _is_said(line) and said is None:
                said = index
            case "turnStart":
                if line["turn"] == 1 and not fresh:
                    yield index if said is None else said
                said, fresh = None, False


def _is_said(line: JsonObject) -> bool:
    """Is it a message for the model, and not one that stands for others?"""
    return line["message"]["role"] == "user" and "summaryOf" not in line["message"]


def _track(lines: Sequence[JsonObject], delegation: str | None) -> Track:
    track, said = Track(), list[Message]()
    for line in lines:
        if line["type"] == "workerUpdate" and line.get("within") == delegation:
            _note_task(track, line)
        elif line.get("delegation") == delegation:
            _take(track, said, line)
    return track


def _note_task(track: Track, line: JsonObject) -> None:
    call = line["toolCallId"]
    if line["status"] in ("started", "resumed"):
        track.given.setdefault(call, []).append((line["worker"], line["delegation"]))
    elif line["status"] != "completed":
        track.failed.add(call)


def _take(track: Track, said: list[Message], line: JsonObject) -> None:
    turn = track.turns[-1]
    match line["type"]:
        case "turnStart":
            track.turns.append(RecordedTurn(line["turn"], line, tuple(said)))
            said.clear()
        case "message" if _is_said(line):
            said.append(read_message(line["message"]))
        case "message" if line["message"]["role"] == "assistant":
            turn.reply = read_message(line["message"])
        case "message" if summary := read_message(line["message"]).summary:
            turn.reply = Message("assistant", summary.text)
            _was_apart(turn, said)
        case "contextUsage":
            track.window = line.get("window") or track.window
        case "turnEnd":
            if turn.reply is None:
                turn.reply = Message("assistant")
                _was_apart(turn, said)
            usage = Usage(**{snake_case(name): count for name, count in line["usage"].items()})
            turn.end = TurnEnd(line["stop"], usage, turn.reply.native if turn.reply else None)
        case "toolStarted":
            turn.calls.setdefault(line["toolCallId"], RecordedCall())
        case "approvalRequired":
            turn.calls.setdefault(line["toolCallId"], RecordedCall()).settle({**line, "verdict": "ask"})
        case "approvalDecided":
            turn.calls.setdefault(line["toolCallId"], RecordedCall()).settle(line)
        case "toolResult":
            turn.calls.setdefault(line["toolCallId"], RecordedCall()).result = line


def _was_apart(turn: RecordedTurn, said: list[Message]) -> None:
    """A turn beside the conversation, for a summary: what was said before it is heard in the one that follows."""
    said[:0], turn.said = turn.said, ()
