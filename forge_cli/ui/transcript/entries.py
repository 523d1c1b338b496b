"""The entries of a conversation, read from the lines of a log, also of one that somebody has changed."""

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
from forge_cli.core.trial import CommandTried
from forge_cli.core.wire import jsonable
from forge_cli.record.line import BadLine, Line
from forge_cli.record.state import CallState, SessionState
from forge_cli.ui.queue import MANUAL
from forge_cli.ui.views import is_hidden, short_place

DEEPEST = 10
LONG = 100
"""Characters of a text that has a block of its own."""
_TASK = "userInput"
TOLD = frozenset({_TASK, "add-dir", "mcp", "reload", "revoke", "rewind", "undo"})
"""Commands whose sentences are part of a transcript, and what comes before a message, such as that an edited worker was
read again; what the others do, other events tell."""
PATCHES = ("*** Begin Patch", "diff --git ", "--- ")


class Said(Struct, frozen=True):
    """Words of the user or of a worker; ``depth`` is 0 for the worker that was started."""

    who: str
    text: str
    files: tuple[str, ...] = ()
    depth: int = 0
    cut_off: bool = False
    """Did it end in the middle?"""


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
    """That of the tool, where it is known."""
    by_person: bool = False
    """Was it called by hand?"""
    started: bool = False
    """Was it taken up?"""
    waits: bool = field(default=False, compare=False)
    """Is what it asks not answered yet?"""

    @property
    def shown(self) -> ResultValue | None:
        """The result, unless it is for the model only, or says the same as the error."""
        value = self.value
        return None if value is None or is_hidden(value) or value.text() == self.error else value

    def ending(self, shown: str = "") -> str:
        """How it ended and why, each said once: what is ``shown`` of a command may say its exit code already."""
        why = (
            (self.error or "")
            .removeprefix(f"{self.tool} was not called; ")
            .removeprefix(f"{self.tool} is ")
        )
        if self.status == "interrupted":
            why = (
                "it may have run"
                if why == UNCERTAIN_CALL
                else why.replace(INTERRUPTED_CALL, "").strip()
            )
        if not why or why == self.status or why in shown.split("\n"):
            return self.status
        return why if why.startswith(f"{self.status}:") else f"{self.status}: {why}"


def words_and_commands(text: str) -> tuple[str, str]:
    """The words of a message of the user, and the commands behind them."""
    words, _, commands = f"\n\n{text}".partition(f"\n\n{COMMAND_OF_USER}")
    return words[2:], f"{COMMAND_OF_USER}{commands}" if commands else ""


class Noted(Struct, frozen=True):
    """Something else that a reader should know; ``level`` is that of a warning or an error."""

    text: str
    depth: int = 0
    level: Literal["", "warning", "error"] = ""
    about: About | None = None


@dataclass
class _Grant:
    """A rule that was allowed for the session, or one exact call, and how many calls it has allowed."""

    text: str
    depth: int
    written: str | None = None
    covered: int = 0

    def note(self) -> Noted:
        written = f", and written to {self.written}" if self.written else ""
        return Noted(
            f"allowed for the session: {self.text}{written}; {counted(self.covered, 'call')} covered",
            self.depth,
        )


TranscriptEntry = Said | Called | Noted


@dataclass
class Transcript:
    """A whole conversation, and whose it is."""

    session: str = ""
    worker: str = ""
    model: str = ""
    workspace: str = ""
    started: str = ""
    entries: list[TranscriptEntry] = field(default_factory=list)


def read_transcript(lines: Iterable[Line]) -> Transcript:
    """A conversation from its lines; one that somebody broke is named, and passed over."""
    reader = TranscriptReader()
    for line in lines:
        reader.read(line)
    reader.told.entries += [grant.note() for grant in reader.grants.values()]
    return reader.told


class TranscriptReader:
    """Takes lines in order; a call is put where the model made it, and completed by what follows."""

    def __init__(self) -> None:
        self.told = Transcript()
        self.state = SessionState()
        self.prompts: set[str] = set()
        self.grants: dict[tuple[str | None, str], _Grant] = {}
        self.command = ""
        """The last command, where nothing was said since."""
        self._stopped: TranscriptEntry | None = None
        """The note of the last interruption."""
        self._called: dict[CallState, Called] = {}
        self._touched: list[TranscriptEntry] = []

    def entry_of(self, delegation: str | None, call: str) -> Called | None:
        """The entry of a call, by the task of the worker that makes it and its id."""
        worker = self.state.workers.get(delegation)
        known = worker.calls.get(call) if worker else None
        return self._called.get(known) if known else None

    def read(self, line: Line) -> list[TranscriptEntry]:
        """Take a line; returns the entries that are new or changed by it. One that somebody broke is named."""
        self._touched = []
        try:
            if call := self.state.take(line):
                self.show(line, call)
            self.take(line)
        except BadLine as error:
            self.note(line, f"line {line.where.line}: {error.message}")
        return self._touched

    def add(self, entry: TranscriptEntry) -> None:
        self.told.entries.append(entry)
        self._touched.append(entry)

    def take(self, line: Line) -> None:
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
                why = f": {event.error}" if event.error is not None else ""
                self.note(line, f"{line.worker} {event.status}{why}")
            case (events.NetworkAccess() | CommandTried()) as event:
                self.note(line, event.sentence())
            case events.StatusEvent(level=level, message=message, about=about):
                if level in ("warning", "error"):
                    self.add(Noted(f"{level}: {message}", _depth(line), level, about))
                elif self.command in TOLD:
                    self.note(line, message)
            case Interrupt(reason=reason):
                self.note(line, reason)
                self._stopped = self._touched[-1] if self._touched else None
            case events.InputPrompt(request_id=id, prompt=prompt):
                self.prompts.add(id)
                self.note(line, f"asks: {prompt}")
            case UserInput(request_id=id, content=content):
                self.note(line, f"answers: {content}" if id in self.prompts else None)
                self.command = self.command if id in self.prompts else _TASK
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
                pass  # an entry shows the state of each call
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
        told = self.told
        when = local_time(line.time)
        if not told.session:
            told.session = line.session
            told.worker = line.worker
            told.started = when
            told.model = event.model
            told.workspace = event.workspace
            return
        copy = f", as a copy of {event.forked_from}" if event.forked_from is not None else ""
        moved = f", in {event.workspace}" if event.workspace != told.workspace else ""
        other = f", with {event.model}" if event.model != told.model else ""
        told.model = event.model
        told.workspace = event.workspace
        self.add(Noted(f"resumed at {when}{copy}{moved}{other}"))

    def update(self, line: Line, event: events.SessionUpdate) -> None:
        self.note(line, event.title and f"the session is called: {event.title}")
        self.note(line, event.model and f"the model is {event.model} from here on")

    def message(self, line: Line, event: events.MessageEvent) -> None:
        self.command = ""
        names = tuple(
            file.name if file.media_type.startswith("text/") else file.about()
            for file in event.message.attachments
        )
        cut_off = bool(event.cut_off)
        text = event.message.text
        if event.message.role == "user" and is_own(text):
            self.note(line, f"the model is told: {' '.join(text.split())}")
            return
        said = Said(self.who(line, event), text, names, _depth(line), cut_off)
        if cut_off and self.told.entries and self.told.entries[-1] is self._stopped:
            if text != INTERRUPTED_ANSWER:  # the note says so
                self.told.entries.insert(-1, said)
                self._touched.append(said)
        else:
            self.add(said)
        for call in (
            self.state.workers[line.delegation].turn.values() if event.message.calls else ()
        ):
            self.show(line, call)

    def who(self, line: Line, event: events.MessageEvent) -> str:
        """The task of a child worker comes from its parent."""
        if event.message.role == "assistant":
            return line.worker
        if event.summary_of is not None:
            return "summary"
        update = self.state.workers[line.delegation].update
        return update.parent if update else event.message.role

    def show(self, line: Line, call: CallState) -> None:
        """Have the entry of a call tell all that is known of it."""
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
        called.waits = (
            _decision_on(call) is None
            and call.asked is not None
            and not call.answer
            and not call.result
        )
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
        """A grant was given, or has allowed a call."""
        for text in [str(rule) for rule in offer.rules] or [very_call]:
            grant = self.grants.setdefault((line.delegation, text), _Grant(text, _depth(line)))
            grant.covered += cached
            grant.written = grant.written or offer.written

    def note(self, line: Line, text: str | None) -> None:
        if text:
            self.add(Noted(text, _depth(line)))


def _depth(line: Line) -> int:
    return min(max(line.depth, 0), DEEPEST)


def _decision_on(call: CallState) -> events.ApprovalDecided | None:
    """The decision that counts, which is none that came before the call asked again."""
    asked = call.asked
    decided = call.decided
    if decided and not (asked and asked.line.seq > decided.line.seq):
        return decided.event
    return None


def _verdict(call: CallState) -> str:
    asked = call.asked
    if said := _decision_on(call):
        via = f" ({said.via})" if said.via else ""
        return f"{said.verdict} -> {_yes_or_no(said.approved)} by {said.by}{via}: {said.reason}{_place(said.where)}"
    if asked is None:
        return ""
    request = asked.event.request
    answer = call.answer
    asks = f"asks: {request.reason}{_place(request.where)}"
    if answer is None:
        return f"{asks}; {request.request_id} {'was not answered' if call.result else 'waits for an answer'}"
    return (
        f"{asks}; answered {_yes_or_no(answer.approved)}{f': {answer.note}' if answer.note else ''}"
    )


def _place(where: Mark | None) -> str:
    return f" ({short_place(where)})" if where else ""


def _yes_or_no(approved: bool) -> str:
    return "yes" if approved else "no"


def _room(event: events.ContextUsage) -> str | None:
    if event.cleared:
        return "the model starts over"
    if event.rewound is not None:
        return "the conversation goes back: the model does not read what came since"
    if event.elided:
        return (
            f"room was made: the results of {len(event.elided)} calls were taken out of the history"
        )
    if event.summarised:
        return f"room was made: a summary stands for {event.summarised} messages from here on"
    return None


def _ending(result: Mapping[str, Any], state: SessionState) -> str:
    """``result`` is the object of ``--output-format json``, in a log that somebody may have changed."""
    status = _text(result.get("status"))
    error = _text(result.get("error")).partition("\n")[0]
    counts = f"{counted(state.turns, 'turn')}, {counted(state.tool_calls, 'call')}"
    return f"{status}: {counts}" + (f"; {error.removeprefix(f'{status}: ')}" if error else "")


def _text(value: Any) -> str:
    return "" if value is None else str(value)


class ArgumentBlock(Struct, frozen=True):
    """A long arg, and the language that it is written in."""

    name: str
    text: str
    language: str


def split_args(
    args: Any, result: ResultValue | None = None
) -> tuple[dict[str, str], list[ArgumentBlock]]:
    """The short args, as JSON by name, and the blocks; what is not given and what the result shows is left out."""
    if not isinstance(args, Mapping):
        return {"args": _json(args)}, []
    written = result.modified if isinstance(result, Diff) else None
    short: dict[str, str] = {}
    blocks: list[ArgumentBlock] = []
    for name, value in args.items():
        if isinstance(value, str) and (name == "command" or "\n" in value or len(value) > LONG):
            if value != written:
                blocks.append(ArgumentBlock(str(name), value, _language(str(name), value)))
        elif value is not None:
            short[str(name)] = _json(value)
    return short, blocks


def _language(name: str, text: str) -> str:
    if text.lstrip().startswith(PATCHES):
        return "diff"
    return "sh" if name == "command" else "text"


def _json(value: Any) -> str:
    return json.dumps(jsonable(value), ensure_ascii=False)
