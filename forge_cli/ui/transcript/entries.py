"""The entries of a transcript, read from the lines of a log, which may be damaged."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, assert_never

from msgspec import Struct

from forge_cli.core import events
from forge_cli.core.actions import (
    ApprovalResponse,
    CommandEvent,
    Interrupt,
    ManualToolInvoke,
    UserInput,
)
from forge_cli.core.approval import MODE_TITLES, GrantOffer
from forge_cli.core.errors import Mark
from forge_cli.core.event_kinds import OtherEvent
from forge_cli.core.notify import About
from forge_cli.core.phrases import (
    COMMAND_OF_USER,
    INTERRUPTED_ANSWER,
    INTERRUPTED_CALL,
    UNCERTAIN_CALL,
    is_own,
)
from forge_cli.core.results import Diff, ResultValue
from forge_cli.core.text import counted, local_time
from forge_cli.core.trial import CommandTried, DraftEvent
from forge_cli.core.wire import jsonable
from forge_cli.record.line import BadLine, Line
from forge_cli.record.state import CallState, SessionState
from forge_cli.ui.queue import MANUAL
from forge_cli.ui.views import is_hidden, short_place

MAX_DEPTH = 10
"""Levels of indentation for child workers."""
MAX_INLINE = 100
"""Characters of an argument without a block of its own."""
_TASK = "userInput"
NOTED_COMMANDS = frozenset({_TASK, "add-dir", "mcp", "reload", "revoke", "rewind", "undo"})
"""Commands whose output is part of a transcript; other commands are visible by their effects.

``userInput`` is for output before a message, such as a reload of the edited worker.
"""
PATCHES = ("*** Begin Patch", "diff --git ", "--- ")


class Said(Struct, frozen=True):
    """A message of the user or of a worker; ``depth`` is 0 for the root."""

    who: str
    text: str
    files: tuple[str, ...] = ()
    depth: int = 0
    cut_off: bool = False
    """Whether the message is incomplete."""


@dataclass
class Called:
    """A call with its verdict and its result."""

    tool: str
    args: Mapping[str, Any]
    depth: int = 0
    verdict: str = ""
    status: str = ""
    error: str | None = None
    value: ResultValue | None = None
    distribution: str | None = None
    """The distribution of the tool; None if it is unknown."""
    by_person: bool = False
    """Whether a person made the call."""
    started: bool = False
    """Whether the call has started."""
    waits: bool = field(default=False, compare=False)
    """Whether the call waits for an answer."""

    @property
    def shown(self) -> ResultValue | None:
        """The result; None if it is for the model only or repeats the error."""
        value = self.value
        if value is None or is_hidden(value) or value.text() == self.error:
            return None
        return value

    def ending(self, shown: str = "") -> str:
        """Return the status and the error, without parts that ``shown`` output contains."""
        # The entry names the tool and the status already.
        why = (self.error or "").removeprefix(f"{self.tool} was not called; ")
        why = why.removeprefix(f"{self.tool} is ")
        if self.status == "interrupted" and why == UNCERTAIN_CALL:
            why = "it may have run"
        elif self.status == "interrupted":
            why = why.replace(INTERRUPTED_CALL, "").strip()
        if not why or why == self.status or why in shown.split("\n"):
            return self.status
        if why.startswith(f"{self.status}:"):
            return why
        return f"{self.status}: {why}"


def words_and_commands(text: str) -> tuple[str, str]:
    """Split a user message into its words and the output of the user's own commands."""
    # Blank lines in front, so that output at the beginning of a message is found, too.
    words, _, commands = f"\n\n{text}".partition(f"\n\n{COMMAND_OF_USER}")
    if not commands:
        return words[2:], ""
    return words[2:], f"{COMMAND_OF_USER}{commands}"


class Noted(Struct, frozen=True):
    """A note, for example about a changed mode; warnings and errors have a ``level``."""

    text: str
    depth: int = 0
    level: Literal["", "warning", "error"] = ""
    about: About | None = None


@dataclass
class _Grant:
    """A rule or an exact call that was granted for the session, and the calls that it covered."""

    text: str
    depth: int
    written: str | None = None
    covered: int = 0

    def note(self) -> Noted:
        text = f"allowed for the session: {self.text}"
        if self.written:
            text += f", and written to {self.written}"
        return Noted(f"{text}; {counted(self.covered, 'call')} covered", self.depth)


TranscriptEntry = Said | Called | Noted


@dataclass
class Transcript:
    """A whole conversation with its session, worker and model."""

    session: str = ""
    worker: str = ""
    model: str = ""
    workspace: str = ""
    started: str = ""
    entries: list[TranscriptEntry] = field(default_factory=list)


def read_transcript(lines: Iterable[Line]) -> Transcript:
    """Read a transcript from the lines of a log; damaged lines become notes."""
    reader = TranscriptReader()
    for line in lines:
        reader.read(line)
    reader.told.entries += [grant.note() for grant in reader.grants.values()]
    return reader.told


class TranscriptReader:
    """Reader of log lines in order; a call is placed where the model made it and updated later."""

    def __init__(self) -> None:
        self.told = Transcript()
        self.state = SessionState()
        self.prompts: set[str] = set()
        self.grants: dict[tuple[str | None, str], _Grant] = {}
        self.command = ""
        """The last command, if no message followed it."""
        self._stopped: TranscriptEntry | None = None
        """The note about the last interrupt."""
        self._called: dict[CallState, Called] = {}
        self._touched: list[TranscriptEntry] = []

    def entry_of(self, delegation: str | None, call: str) -> Called | None:
        """Return the entry of a call, by the delegation of its worker and its id."""
        worker = self.state.workers.get(delegation)
        known = worker.calls.get(call) if worker else None
        if known:
            return self._called.get(known)
        return None

    def read(self, line: Line) -> list[TranscriptEntry]:
        """Read a line and return the new or changed entries; a damaged line becomes a note."""
        self._touched = []
        try:
            if call := self.state.take(line):
                self.show(line, call)
            self.take(line)
        except BadLine as error:
            self.note(line, f"line {line.where.line}: {error.message}")
        return self._touched

    def add(self, entry: TranscriptEntry) -> None:
        """Add an entry at the end."""
        self.told.entries.append(entry)
        self._touched.append(entry)

    def take(self, line: Line) -> None:
        """Add the entries of an event that is not about a call."""
        match line.event:
            case events.SessionUpdate() as event:
                self.update(line, event)
            case events.SessionStart() as event:
                self.start(line, event)
            case events.ModeChanged(mode=mode):
                self.note(line, f"the mode is {MODE_TITLES[mode]} from here on")
            case events.MessageEvent() as event:
                self.message(line, event)
            case events.ApprovalDecided(grant=GrantOffer() as offer, approved=True) as event:
                called = self.entry_of(line.delegation, event.tool_call_id)
                name = called.tool if called else event.tool_call_id
                self.granted(line, offer, f"{offer.text} of {name}", cached=event.cached)
            case events.WorkerUpdate() as event:
                why = ""
                if event.error is not None:
                    why = f": {event.error}"
                self.note(line, f"{line.worker} {event.status}{why}")
            case (events.NetworkAccess() | CommandTried() | DraftEvent()) as event:
                self.note(line, event.sentence())
            case events.StatusEvent(level=level, message=message, about=about):
                if level in ("warning", "error"):
                    self.add(Noted(f"{level}: {message}", _depth(line), level, about))
                elif self.command in NOTED_COMMANDS:
                    self.note(line, message)
            case Interrupt(reason=reason):
                self.note(line, reason)
                if self._touched:
                    self._stopped = self._touched[-1]
                else:
                    self._stopped = None
            case events.InputPrompt(request_id=id, prompt=prompt):
                self.prompts.add(id)
                self.note(line, f"asks: {prompt}")
            case UserInput(request_id=id, content=content):
                self.note(line, f"answers: {content}" if id in self.prompts else None)
                if id not in self.prompts:
                    self.command = _TASK
            case events.ContextUsage() as event:
                self.note(line, _room(event))
            case events.SessionEnd(result=result):
                self.note(line, _ending(result, self.state))
            case CommandEvent(name=name):
                self.command = name
            case (
                events.ToolStarted()
                | events.ApprovalRequired()
                | ApprovalResponse()
                | events.ApprovalDecided()
                | events.ToolResult()
            ):
                pass  # `show` updates the entry of the call
            case (
                events.TurnStart()
                | events.TurnEndEvent()
                | events.Streaming()
                | events.ToolOutput()
                | events.GrantsEvent()
                | OtherEvent()
            ):
                pass
            case events.ManualToolsAvailable() | ManualToolInvoke():
                pass
            case never:
                assert_never(never)

    def start(self, line: Line, event: events.SessionStart) -> None:
        """Begin the transcript, or note that the session was resumed."""
        told = self.told
        when = local_time(line.time)
        if not told.session:
            told.session = line.session
            told.worker = line.worker
            told.started = when
            told.model = event.model
            told.workspace = event.workspace
            return
        if event.forked_from is not None:
            copy = f", as a copy of {event.forked_from}"
        else:
            copy = ""
        moved = ""
        if event.workspace != told.workspace:
            moved = f", in {event.workspace}"
        other = ""
        if event.model != told.model:
            other = f", with {event.model}"
        told.model = event.model
        told.workspace = event.workspace
        self.add(Noted(f"resumed at {when}{copy}{moved}{other}"))

    def update(self, line: Line, event: events.SessionUpdate) -> None:
        """Note a changed title or model."""
        self.note(line, event.title and f"the session is called: {event.title}")
        self.note(line, event.model and f"the model is {event.model} from here on")

    def message(self, line: Line, event: events.MessageEvent) -> None:
        """Add a message and the calls in it."""
        self.command = ""
        names = []
        for file in event.message.attachments:
            names.append(file.name if file.media_type.startswith("text/") else file.about())
        cut_off = bool(event.cut_off)
        text = event.message.text
        if event.message.role == "user" and is_own(text):
            self.note(line, f"the model is told: {' '.join(text.split())}")
            return
        said = Said(self.who(line, event), text, tuple(names), _depth(line), cut_off)
        if cut_off and self.told.entries and self.told.entries[-1] is self._stopped:
            # The interrupt was recorded before the answer that it cut off.
            if text != INTERRUPTED_ANSWER:
                self.told.entries.insert(-1, said)
                self._touched.append(said)
        else:
            self.add(said)
        if event.message.calls:
            for call in self.state.workers[line.delegation].turn.values():
                self.show(line, call)

    def who(self, line: Line, event: events.MessageEvent) -> str:
        """Return the author of a message; the task of a child worker comes from its parent."""
        if event.message.role == "assistant":
            return line.worker
        if event.summary_of is not None:
            return "summary"
        update = self.state.workers[line.delegation].update
        if update:
            return update.parent
        return event.message.role

    def show(self, line: Line, call: CallState) -> None:
        """Create or update the entry of a call."""
        called = self._called.get(call)
        before = replace(called) if called else None
        if called is None:
            called = self._called[call] = Called(
                call.call.name,
                call.call.args,
                _depth(line),
                by_person=call.call.id.startswith(MANUAL),
            )
            self.told.entries.append(called)
        is_open = call.asked is not None and _decision_on(call) is None
        called.waits = is_open and not call.answer and not call.result
        called.verdict = _verdict(call)
        called.started = call.started is not None
        if result := call.result:
            called.status = result.status
            called.value = result.value
            called.error = result.error
            called.distribution = result.distribution
        if called != before:
            self._touched.append(called)

    def granted(self, line: Line, offer: GrantOffer, very_call: str, *, cached: bool) -> None:
        """Count a grant that was given, or that has allowed a call."""
        for text in [str(rule) for rule in offer.rules] or [very_call]:
            grant = self.grants.setdefault((line.delegation, text), _Grant(text, _depth(line)))
            grant.covered += cached
            grant.written = grant.written or offer.written

    def note(self, line: Line, text: str | None) -> None:
        """Add a note unless the text is empty."""
        if text:
            self.add(Noted(text, _depth(line)))


def _depth(line: Line) -> int:
    return min(max(line.depth, 0), MAX_DEPTH)  # a damaged line can have any depth


def _decision_on(call: CallState) -> events.ApprovalDecided | None:
    """Return the decision on a call; None if it has asked again since."""
    asked = call.asked
    decided = call.decided
    if decided and not (asked and asked.line.seq > decided.line.seq):
        return decided.event
    return None


def _verdict(call: CallState) -> str:
    asked = call.asked
    if said := _decision_on(call):
        via = f" ({said.via})" if said.via else ""
        decided = f"{said.verdict} -> {_yes_or_no(said.approved)} by {said.by}{via}"
        return f"{decided}: {said.reason}{_place(said.where)}"
    if asked is None:
        return ""
    request = asked.event.request
    answer = call.answer
    asks = f"asks: {request.reason}{_place(request.where)}"
    if answer is None:
        state = "waits for an answer"
        if call.result:
            state = "was not answered"
        return f"{asks}; {request.request_id} {state}"
    note = f": {answer.note}" if answer.note else ""
    return f"{asks}; answered {_yes_or_no(answer.approved)}{note}"


def _place(where: Mark | None) -> str:
    if where:
        return f" ({short_place(where)})"
    return ""


def _yes_or_no(approved: bool) -> str:
    return "yes" if approved else "no"


def _room(event: events.ContextUsage) -> str | None:
    if event.cleared:
        return "the model starts with an empty history"
    if event.rewound is not None:
        return "the conversation went back: the model does not read later messages"
    if event.elided:
        calls = counted(len(event.elided), "call")
        return f"the history was shortened: the results of {calls} were removed"
    if event.summarised:
        messages = counted(event.summarised, "message")
        return f"the history was shortened: a summary replaces {messages}"
    return None


def _ending(result: Mapping[str, Any], state: SessionState) -> str:
    """Return the end of a session from its result object, which may be damaged."""
    status = _text(result.get("status"))
    error = _text(result.get("error")).partition("\n")[0]
    ended = f"{status}: {counted(state.turns, 'turn')}, {counted(state.tool_calls, 'call')}"
    if error:
        return f"{ended}; {error.removeprefix(f'{status}: ')}"
    return ended


def _text(value: Any) -> str:
    return "" if value is None else str(value)


class ArgumentBlock(Struct, frozen=True):
    """A long argument and its language."""

    name: str
    text: str
    language: str


def split_args(
    args: Any, result: ResultValue | None = None
) -> tuple[dict[str, str], list[ArgumentBlock]]:
    """Return the short arguments as JSON, and the long ones as blocks.

    Nulls, and text that the result shows, are left out.
    """
    if not isinstance(args, Mapping):
        return {"args": _json(args)}, []
    written = None
    if isinstance(result, Diff):
        written = result.modified
    short: dict[str, str] = {}
    blocks: list[ArgumentBlock] = []
    for name, value in args.items():
        is_long = name == "command" or "\n" in str(value) or len(str(value)) > MAX_INLINE
        if isinstance(value, str) and is_long:
            if value != written:
                blocks.append(ArgumentBlock(str(name), value, _language(str(name), value)))
        elif value is not None:
            short[str(name)] = _json(value)
    return short, blocks


def _language(name: str, text: str) -> str:
    if text.lstrip().startswith(PATCHES):
        return "diff"
    if name == "command":
        return "sh"
    return "text"


def _json(value: Any) -> str:
    return json.dumps(jsonable(value), ensure_ascii=False)
