"""Everything that happens in a session: display events go to the UI, action events come from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from msgspec import Struct

from forge_cli.core.approval import ApprovalRequest, DecidedBy, GrantOffer, SessionMode
from forge_cli.core.calls import OutcomeStatus
from forge_cli.core.errors import Mark, StatusLevel
from forge_cli.core.messages import Message, StopReason, ToolSpec, Usage
from forge_cli.core.notify import About, RetryNotice, RunningCommand, StatusNotice
from forge_cli.core.results import ResultValue
from forge_cli.core.wire import JsonObject, OnWire, read, wire

VERSION = 1
CLIENTS = "MCP clients"
OTHER_TOOLS = "other tools"
"""Take the place of the model where calls come from clients of ``forge serve``, or are only judged for a program."""


class Origin(Struct, frozen=True):
    """The worker that an event comes from, where it is not the root: its place in the tree of delegation."""

    worker: str
    depth: int
    delegation: str
    """The id of the task that this worker was given."""
    path: tuple[str, ...]
    """The names of the workers from the root down to this one."""


class Event(Struct, frozen=True, kw_only=True):
    """Something that happened; ``type`` is its name on the wire."""

    off_wire: ClassVar[tuple[str, ...]] = ("origin",)
    type: ClassVar[str]
    transient: ClassVar[bool] = False
    """Sent, but never recorded."""
    origin: Origin | None = None
    """None for the root; on the wire it is part of the envelope, not of the payload."""

    def payload(self) -> JsonObject:
        """The content on the wire beside the envelope."""
        return wire(self)

    @classmethod
    def read(cls, payload: JsonObject) -> Self:
        """The event that wrote this payload; Unreadable where none did. Keys that are not known are passed over."""
        return read(cls, payload)


class SessionStart(Event, frozen=True):
    """A session starts, or is resumed: then ``resumed`` is the number of lines that were there already."""

    off_wire: ClassVar = ("origin", "session", "worker")
    type: ClassVar[str] = "sessionStart"
    model: str
    workspace: str
    approval_mode: str
    worker_file: str | None = None
    resumed: int | None = None
    forked_from: str | None = None
    output_schema: Mapping[str, Any] | None = None
    """The schema that the answer has to fit, where the person or the program gave it, and not the worker."""
    title: str | None = None
    """The name of the session, where it is resumed."""
    batch: str | None = None
    zones: tuple[Mapping[str, Any], ...] | None = None
    """Zones whose files can be used: ``{name, path, mode, write, delete}`` each."""
    isolation: str | None = None
    """How commands are confined."""
    read_only: bool | None = None
    """True where no tool can be called that does more than read."""
    guidance: tuple[str, ...] | None = None
    """The files AGENTS.md that the model is told, from the top of the repository down."""
    session: str = ""
    worker: str = ""
    """On the wire these two are part of the envelope."""


class SessionUpdate(Event, frozen=True):
    """Something that the session says of itself is another from now on; what is absent stays as it was."""

    type: ClassVar[str] = "sessionUpdate"
    title: str | None = None
    model: str | None = None
    approval_mode: str | None = None
    zones: tuple[Mapping[str, Any], ...] | None = None
    isolation: str | None = None
    usage: Usage | None = None
    """The usage of the model to find the title."""


class TurnStart(Event, frozen=True):
    """A request goes to the model; the digest is the hash of everything in it."""

    type: ClassVar[str] = "turnStart"
    turn: int
    request_digest: str
    tools: tuple[str, ...]
    system: str | None = None
    """The system prompt; absent when it is the same as in the turn before."""
    environment: str | None = None
    """The part of the system prompt that tells where the worker is; absent like it."""
    specs: tuple[ToolSpec, ...] | None = None
    """The tools as the model sees them; absent when they are the same as in the turn before."""
    model: str | None = None
    """The model that is asked; absent like them."""
    refresh_ms: float | None = None
    """How long it took to ask every toolset for its tools, the folder of executables included."""


class MessageEvent(Event, frozen=True):
    """Something was said, with what goes along with it."""

    type: ClassVar[str] = "message"
    message: Message
    cut_off: bool = False
    """True if the model was stopped while it spoke."""
    summary_of: int | None = None
    """How many messages, from the first on, this one stands for from now on."""
    environment: str | None = None
    """The place of the worker now, where the message tells how that differs from what the model was told before."""

    def payload(self) -> JsonObject:
        """The message, with what is only there where it applies."""
        said = self.message.wire()
        if self.cut_off:
            said["cutOff"] = True
        if self.summary_of is not None:
            said["summaryOf"] = self.summary_of
        if self.environment is not None:
            said["environment"] = self.environment
        return {"message": said}

    @classmethod
    def read(cls, payload: JsonObject) -> Self:
        said = payload.get("message")
        return read(cls, {**(said if isinstance(said, dict) else {}), "message": said})


class Streaming(Event, frozen=True):
    """A piece of the answer; ``done`` closes the stream of one turn."""

    type: ClassVar[str] = "streaming"
    transient: ClassVar[bool] = True
    request_id: str
    delta: str
    done: bool


class StatusEvent(Event, frozen=True):
    """Progress, warnings, and what else a person should know while it happens."""

    type: ClassVar[str] = "status"
    level: StatusLevel
    message: str
    tool_call_id: str | None = None
    progress: float | None = None
    about: About | None = None
    """Its subject, which forge alone says; no reader looks at the words."""
    retry: RetryNotice | None = None
    """The facts of one about a ``retry``."""
    running: tuple[RunningCommand, ...] | None = None
    """All commands that are still running, of one about ``commands``."""
    urgent: bool | None = None
    """True for what is told even where warnings are not."""

    @classmethod
    def of(cls, level: StatusLevel, message: str) -> Self:
        """The event of a sentence that was told."""
        if isinstance(message, StatusNotice):
            urgent = message.urgent or None
            retry = message.retry
            running = message.running
            return cls(
                level,
                str(message),
                about=message.about,
                retry=retry,
                running=running,
                urgent=urgent,
            )
        return cls(level, str(message))


class ToolStarted(Event, frozen=True):
    """A call is taken up; whether it may be executed is not decided yet."""

    type: ClassVar[str] = "toolStarted"
    tool_call_id: str
    tool_name: str
    args: Mapping[str, Any]
    parent_call_id: str | None = None
    """The call whose tool makes this one."""


class ToolOutput(Event, frozen=True):
    """The last output of the command of a call, while it runs."""

    type: ClassVar[str] = "toolOutput"
    transient: ClassVar[bool] = True
    tool_call_id: str
    text: str


class ToolResult(Event, frozen=True):
    """A call has ended; every call has exactly one result."""

    type: ClassVar[str] = "toolResult"
    tool_call_id: str
    tool_name: str
    status: OutcomeStatus
    value: ResultValue
    duration_ms: int
    error: str | None = None
    distribution: str | None = None
    """Of a custom result: the package or file that the tool is part of, whose renderer draws it."""
    parent_call_id: str | None = None
    traceback: str | None = None
    """Of an exception inside the tool, for its author."""


class ApprovalRequired(Event, frozen=True):
    """A call waits for an answer: approved or not."""

    type: ClassVar[str] = "approvalRequired"
    request: ApprovalRequest

    def payload(self) -> JsonObject:
        """The request itself, without another level."""
        return wire(self.request)

    @classmethod
    def read(cls, payload: JsonObject) -> Self:
        return cls(read(ApprovalRequest, payload))


class ApprovalDecided(Event, frozen=True):
    """How a call's verdict was settled, and by whom; comes for every call that reaches a verdict."""

    type: ClassVar[str] = "approvalDecided"
    tool_call_id: str
    verdict: str
    approved: bool
    by: DecidedBy
    rule: str | None
    where: Mark | None
    reason: str
    cached: bool
    request_id: str | None = None
    caller: str | None = None
    """``tool:NAME`` where a tool makes the call."""
    grant: GrantOffer | None = None
    """The grant for the session that came with this answer, or, where it is ``cached``, that allows this call."""
    via: str | None = None
    """The origin of the answer, if that is not where it was asked."""
    fingerprint: str | None = None
    """The identity of the call, as in a request."""


class SessionGrant(OnWire, frozen=True):
    """Something that is allowed for the rest of a session."""

    tool_name: str
    text: str
    """The calls that it allows, in a few words."""
    rules: tuple[str, ...] = ()
    """The rules, as they could stand in a policy; none for one very call."""


class GrantsEvent(Event, frozen=True):
    """All that the person has allowed for the rest of the session, since there was a change; counted from 1."""

    type: ClassVar[str] = "grants"
    transient: ClassVar[bool] = True
    grants: tuple[SessionGrant, ...]


class ModeChanged(Event, frozen=True):
    """The person lets the worker do more or less from now on; a session starts, and is resumed, with ``ask``."""

    type: ClassVar[str] = "modeChanged"
    mode: SessionMode


class NetworkAccess(Event, frozen=True):
    """A command wanted to connect to a host; only where ``sandbox.network`` is a list of names."""

    type: ClassVar[str] = "networkAccess"
    host: str
    port: int
    allowed: bool
    by: DecidedBy
    tool_call_id: str | None
    """The call that started the command."""
    reason: str | None = None
    """Why it is refused."""

    def sentence(self) -> str:
        """The event as a line for people."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        why = f": {self.reason}" if self.reason else ""
        return f"network: {host}:{self.port} {'allowed' if self.allowed else 'refused'} by {self.by}{why}"


class WorkerUpdate(Event, frozen=True):
    """A child worker has started or ended; the envelope says which one, and how deep."""

    type: ClassVar[str] = "workerUpdate"
    status: Literal[
        "started",
        "resumed",
        "completed",
        "failed",
        "limit",
        "denied",
        "invalid_output",
        "interrupted",
        "parked",
    ]
    parent: str
    """Its parent worker."""
    tool_call_id: str
    """The call that started it."""
    within: str | None = None
    """The delegation that the parent itself works on, if it is not the root."""
    turns: int | None = None
    usage: Usage | None = None
    error: str | None = None


class ContextUsage(Event, frozen=True):
    """How full the model's window is; with what was taken out of the history to make room, where something was."""

    type: ClassVar[str] = "contextUsage"
    used: int
    window: int | None
    elided: tuple[str, ...] | None = None
    """The calls whose results the model no longer reads."""
    summarised: int | None = None
    """How many messages a summary stands for from now on."""
    cleared: bool | None = None
    """True when the model starts over: it reads nothing of what was said before."""
    rewound: int | None = None
    """The number of the line that the conversation goes back to: the model reads nothing from that one on."""


class ManualToolsAvailable(Event, frozen=True):
    """Tools and prompts that people may call or send by a command now."""

    type: ClassVar[str] = "manualToolsAvailable"
    tools: tuple[Mapping[str, Any], ...]
    prompts: tuple[Mapping[str, Any], ...] | None = None
    """Messages that a command of their name sends: each with name, description and arguments."""


class InputPrompt(Event, frozen=True):
    """Somebody is asked for a line of text, which is one of the ``options`` where there are some."""

    type: ClassVar[str] = "inputPrompt"
    request_id: str
    prompt: str
    options: tuple[str, ...] | None = None


class TurnEndEvent(Event, frozen=True):
    """A turn of the model has ended."""

    type: ClassVar[str] = "turnEnd"
    turn: int
    stop: StopReason
    usage: Usage
    cost: float | None = None
    """In dollars, where the price of the model is known."""


class SessionEnd(Event, frozen=True):
    """The last event of a session; ``result`` is the object that ``--output-format json`` prints."""

    type: ClassVar[str] = "sessionEnd"
    result: Mapping[str, Any]
