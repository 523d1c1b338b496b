"""The entries of a conversation, read from the lines of a log, also of one that somebody has changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

from forge_cli.core.approval import MODE_TITLES, ApprovalRequest, GrantOffer
from forge_cli.core.events import (
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
from forge_cli.core.phrases import COMMAND_OF_USER
from forge_cli.core.results import Diff, ResultValue
from forge_cli.core.text import counted, local_time
from forge_cli.core.wire import jsonable
from forge_cli.record.line import BadLine, Line
from forge_cli.ui.queue import MANUAL
from forge_cli.ui.views import is_hidden, short_place

DEEPEST = 10
LONG = 100
"""Characters of a text that has a block of its own."""
TOLD = frozenset({"add-dir", "mcp", "reload", "revoke", "undo"})
"""Commands whose sentences are part of a transcript; what the others do, other events tell."""
WAITS = "waits for an answer"
PATCHES = ("*** Begin Patch", "diff --git ", "--- ")


@dataclass(frozen=True)
class Said:
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

    @property
    def waits(self) -> bool:
        """Has nobody answered yet what it asks?"""
        return self.verdict.endswith(WAITS)

    @property
    def shown(self) -> ResultValue | None:
        """The result, unless it is for the model only, or says the same as the error."""
        value = self.value
        return None if value is None or is_hidden(value) or value.text() == self.error else value

    def ending(self, shown: str = "") -> str:
        """How it ended and why, each said once: what is ``shown`` of a command may say its exit code already."""
        why = (self.error or "").removeprefix(f"{self.tool} was not called; ").removeprefix(f"{self.tool} is ")
        if not why or why == self.status or why in shown.split("\n"):
            return self.status
        return why if why.startswith(f"{self.status}:") else f"{self.status}: {why}"


def words_and_commands(text: str) -> tuple[str, str]:
    """The words of a message of the user, and the commands behind them."""
    words, _, commands = f"\n\n{text}".partition(f"\n\n{COMMAND_OF_USER}")
    return words[2:], f"{COMMAND_OF_USER}{commands}" if commands else ""


@dataclass(frozen=True)
class Noted:
    """Something else that a reader should know; ``level`` is that of a warning or an error."""

    text: str
    depth: int = 0
    level: Literal["", "warning", "error"] = ""


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
            f"allowed for the session: {self.text}{written}; {counted(self.covered, 'call')} covered", self.depth
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
        self.calls: dict[tuple[str | None, str], Called] = {}
        """By the task that a child worker was given, and the call."""
        self.asked: dict[str, Called] = {}
        self.prompts: set[str] = set()
        self.parents: dict[str | None, str] = {}
        self.grants: dict[tuple[str | None, str], _Grant] = {}
        self.command = ""
        """The last command, where nothing was said since."""
        self._touched: list[TranscriptEntry] = []

    def read(self, line: Line) -> list[TranscriptEntry]:
        """Take a line; returns the entries that are new or changed by it. One that somebody broke is named."""
        self._touched = []
        try:
            self.take(line)
        except BadLine as error:
            self.note(line, f"line {line.where.line}: {error.message}")
        return self._touched

    def add(self, entry: TranscriptEntry) -> None:
        self.told.entries.append(entry)
        self._touched.append(entry)

    def take(self, line: Line) -> None:
        match line.event:
            case SessionUpdate() as event:
                self.update(line, event)
            case SessionStart() as event:
                self.start(line, event)
            case ModeChanged(mode=mode):
                self.note(line, f"the mode is {MODE_TITLES[mode]} from here on")
            case MessageEvent() as event:
                self.message(line, event)
            case ToolStarted(tool_call_id=id) as event:
                if (line.delegation, id) not in self.calls:
                    self.call(line, id, event.tool_name, event.args)
            case ApprovalRequired(request=request):
                self.required(line, request)
            case ApprovalResponse() as event:
                self.response(event)
            case ApprovalDecided() as event:
                self.decided(line, event)
            case ToolResult() as event:
                self.result(line, event)
            case WorkerUpdate() as event:
                self.parents[line.delegation] = event.parent
                why = f": {event.error}" if event.error is not None else ""
                self.note(line, f"{line.worker} {event.status}{why}")
            case (NetworkAccess() | CommandTried()) as event:
                self.note(line, event.sentence())
            case StatusEvent(level=level, message=message):
                if level in ("warning", "error"):
                    self.add(Noted(f"{level}: {message}", _depth(line), level))
                elif self.command in TOLD:
                    self.note(line, message)
            case Interrupt(reason=reason):
                self.note(line, reason)
            case InputPrompt(request_id=id, prompt=prompt):
                self.prompts.add(id)
                self.note(line, f"asks: {prompt}")
            case UserInput(request_id=id, content=content):
                self.note(line, f"answers: {content}" if id in self.prompts else None)
            case ContextUsage() as event:
                self.note(line, _room(event))
            case SessionEnd(result=result):
                self.note(line, _ending(result))
            case (
                TurnStart()
                | TurnEndEvent()
                | Streaming()
                | ToolOutput()
                | ManualToolsAvailable()
                | ManualToolInvoke()
                | GrantsEvent()
            ):
                pass
            case CommandEvent(name=name):
                self.command = name
            case OtherEvent():
                pass
            case never:
                assert_never(never)

    def start(self, line: Line, event: SessionStart) -> None:
        told, when = self.told, local_time(line.time)
        if not told.session:
            told.session, told.worker, told.started = line.session, line.worker, when
            told.model, told.workspace = event.model, event.workspace
            return
        copy = f", as a copy of {event.forked_from}" if event.forked_from is not None else ""
        moved = f", in {event.workspace}" if event.workspace != told.workspace else ""
        other = f", with {event.model}" if event.model != told.model else ""
        told.model, told.workspace = event.model, event.workspace
        self.add(Noted(f"resumed at {when}{copy}{moved}{other}"))

    def update(self, line: Line, event: SessionUpdate) -> None:
        self.note(line, event.title and f"the session is called: {event.title}")
        self.note(line, event.model and f"the model is {event.model} from here on")

    def message(self, line: Line, event: MessageEvent) -> None:
        self.command = ""
        names = tuple(file.name for file in event.message.attachments)
        cut_off = bool(event.cut_off)
        self.add(Said(self.who(line, event), event.message.text, names, _depth(line), cut_off))
        for call in event.message.calls:
            self.call(line, call.id, call.name, call.args)

    def who(self, line: Line, event: MessageEvent) -> str:
        """The task of a child worker comes from its parent."""
        if event.message.role == "assistant":
            return line.worker
        return "summary" if event.summary_of is not None else self.parents.get(line.delegation, event.message.role)

    def call(self, line: Line, id: str, tool: str, args: Mapping[str, Any]) -> Called:
        called = self.calls[line.delegation, id] = Called(tool, args, _depth(line), by_person=id.startswith(MANUAL))
        self.add(called)
        return called

    def required(self, line: Line, request: ApprovalRequest) -> None:
        if called := self.calls.get((line.delegation, request.tool_call_id)):
            self.asked[request.request_id] = called
            place = f" ({short_place(request.where)})" if request.where else ""
            called.verdict = f"asks: {request.reason}{place}; {request.request_id} {WAITS}"
            self._touched.append(called)

    def response(self, event: ApprovalResponse) -> None:
        if called := self.asked.get(event.request_id):
            note = f": {event.decision.note}" if event.decision.note else ""
            asked = called.verdict.partition("; approval_")[0]
            called.verdict = f"{asked}; answered {_yes_or_no(event.decision.approved)}{note}"
            self._touched.append(called)

    def decided(self, line: Line, event: ApprovalDecided) -> None:
        if called := self.calls.get((line.delegation, event.tool_call_id)):
            place = f" ({short_place(event.where)})" if event.where else ""
            via = f" ({event.via})" if event.via else ""
            settled = f"{event.verdict} -> {_yes_or_no(event.approved)} by {event.by}{via}"
            called.verdict = f"{settled}: {event.reason}{place}"
            self._touched.append(called)
        if event.grant and event.approved:
            name = called.tool if called else event.tool_call_id
            self.granted(line, event.grant, f"{event.grant.text} of {name}", cached=event.cached)

    def granted(self, line: Line, offer: GrantOffer, very_call: str, *, cached: bool) -> None:
        """A grant was given, or has allowed a call."""
        for text in [str(rule) for rule in offer.rules] or [very_call]:
            grant = self.grants.setdefault((line.delegation, text), _Grant(text, _depth(line)))
            grant.covered += cached
            grant.written = grant.written or offer.written

    def result(self, line: Line, event: ToolResult) -> None:
        key = line.delegation, event.tool_call_id
        called = self.calls.get(key) or self.call(line, event.tool_call_id, event.tool_name, {})
        called.status, called.value, called.error = event.status, event.value, event.error
        called.distribution = event.distribution
        self._touched.append(called)

    def note(self, line: Line, text: str | None) -> None:
        if text:
            self.add(Noted(text, _depth(line)))


def _depth(line: Line) -> int:
    return min(max(line.depth, 0), DEEPEST)


def _yes_or_no(approved: bool) -> str:
    return "yes" if approved else "no"


def _room(event: ContextUsage) -> str | None:
    if event.cleared:
        return "the model starts over"
    if event.rewound is not None:
        return f"the conversation goes back to line {event.rewound}: the model does not read what came since"
    if event.elided:
        return f"room was made: the results of {len(event.elided)} calls were taken out of the history"
    if event.summarised:
        return f"room was made: a summary stands for {event.summarised} messages from here on"
    return None


def _ending(result: Mapping[str, Any]) -> str:
    """``result`` is the object of ``--output-format json``, in a log that somebody may have changed."""
    status, error = _text(result.get("status")), _text(result.get("error")).partition("\n")[0]
    counts = f"{_counted(result.get('turns'), 'turn')}, {_counted(result.get('tool_calls'), 'call')}"
    return f"{status}: {counts}" + (f"; {error.removeprefix(f'{status}: ')}" if error else "")


def _counted(number: Any, what: str) -> str:
    return counted(number, what) if isinstance(number, int | float) else f"? {what}s"


def _text(value: Any) -> str:
    return "" if value is None else str(value)


@dataclass(frozen=True)
class ArgumentBlock:
    """A long arg, and the language that it is written in."""

    name: str
    text: str
    language: str


def split_args(args: Any, result: ResultValue | None = None) -> tuple[dict[str, str], list[ArgumentBlock]]:
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
