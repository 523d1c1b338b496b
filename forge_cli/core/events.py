"""Events of a session: display events go to the UI, action events come from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from msgspec import Struct

from forge_cli.core.approval import (
    ApprovalRequest,
    DecidedBy,
    GrantOffer,
    SessionMode,
    ValueOrigin,
)
from forge_cli.core.calls import OutcomeStatus
from forge_cli.core.errors import Mark, StatusLevel
from forge_cli.core.messages import Message, StopReason, ToolSpec, Usage
from forge_cli.core.notify import About, RetryNotice, RunningCommand, StatusNotice
from forge_cli.core.results import ResultValue
from forge_cli.core.wire import JsonObject, OnWire, read, wire

VERSION = 1
CLIENTS = "MCP clients"
OTHER_TOOLS = "other tools"
"""Names in place of a model.

The first is for calls of clients of ``forge serve``, the second for calls that a program only
judges.
"""


class Origin(Struct, frozen=True):
    """The child worker that an event comes from, as its place in the tree of delegations."""

    worker: str
    depth: int
    delegation: str
    """The id of the worker's task."""
    path: tuple[str, ...]
    """The names of the workers from the root to this one."""


class Event(Struct, frozen=True, kw_only=True):
    """Something that happened in a session; ``type`` is its wire name."""

    off_wire: ClassVar[tuple[str, ...]] = ("origin",)
    type: ClassVar[str]
    transient: ClassVar[bool] = False
    """True for events that are sent but never recorded."""
    origin: Origin | None = None
    """None for the root worker; on the wire it is part of the envelope, not of the payload."""

    def payload(self) -> JsonObject:
        """Return the content on the wire, without the envelope."""
        return wire(self)

    @classmethod
    def read(cls, payload: JsonObject) -> Self:
        """Return the event of a payload; raise Unreadable if it is invalid.

        Unknown keys are ignored, because a newer forge may have written them.
        """
        return read(cls, payload)


class SessionStart(Event, frozen=True):
    """A session starts or resumes; ``resumed`` is the number of lines that existed before."""

    off_wire: ClassVar = ("origin", "session", "worker")
    type: ClassVar[str] = "sessionStart"
    model: str
    workspace: str
    approval_mode: str
    worker_file: str | None = None
    resumed: int | None = None
    forked_from: str | None = None
    output_schema: Mapping[str, Any] | None = None
    """The schema of the answer if the person or program sets it instead of the worker."""
    title: str | None = None
    """The title of a resumed session."""
    batch: str | None = None
    zones: tuple[Mapping[str, Any], ...] | None = None
    """Zones with usable files, each as ``{name, path, mode, write, delete}``."""
    isolation: str | None = None
    """How commands are confined."""
    read_only: bool | None = None
    """True if only tools that read can be called."""
    guidance: tuple[str, ...] | None = None
    """The AGENTS.md files that the model gets, from the top of the repository down."""
    session: str = ""
    worker: str = ""
    """Part of the envelope on the wire, like ``session``."""


class SessionUpdate(Event, frozen=True):
    """Properties of the session that change from now on; absent ones stay the same."""

    type: ClassVar[str] = "sessionUpdate"
    title: str | None = None
    model: str | None = None
    approval_mode: str | None = None
    zones: tuple[Mapping[str, Any], ...] | None = None
    isolation: str | None = None
    usage: Usage | None = None
    """Tokens that the model used to find the title."""


class TurnStart(Event, frozen=True):
    """A request to the model; the digest is the hash of everything in it."""

    type: ClassVar[str] = "turnStart"
    turn: int
    request_digest: str
    tools: tuple[str, ...]
    system: str | None = None
    """The system prompt; absent if it is the same as in the previous turn."""
    environment: str | None = None
    """The part of the system prompt about the worker's environment; absent if unchanged."""
    specs: tuple[ToolSpec, ...] | None = None
    """The tools as the model sees them; absent if unchanged."""
    model: str | None = None
    """The requested model; absent if unchanged."""
    refresh_ms: float | None = None
    """Time to refresh the tools of all toolsets, including the folder of executables."""


class MessageEvent(Event, frozen=True):
    """A message of the user or the model."""

    type: ClassVar[str] = "message"
    message: Message
    cut_off: bool = False
    """True if the model was stopped before the end of its message."""
    summary_of: int | None = None
    """The number of messages, counted from the first, that this message replaces."""
    environment: str | None = None
    """The worker's environment now, if the message tells the model about a change of it."""
    typed: bool = True
    """False for a message with the role ``user`` that no person wrote."""

    def payload(self) -> JsonObject:
        """Return the message, with the optional keys that apply."""
        said = self.message.wire()
        if self.cut_off:
            said["cutOff"] = True
        if self.summary_of is not None:
            said["summaryOf"] = self.summary_of
        if self.environment is not None:
            said["environment"] = self.environment
        if not self.typed:
            said["typed"] = False
        return {"message": said}

    @classmethod
    def read(cls, payload: JsonObject) -> Self:
        said = payload.get("message")
        return read(cls, {**(said if isinstance(said, dict) else {}), "message": said})


class Streaming(Event, frozen=True):
    """A piece of the answer; ``done`` ends the stream of a turn."""

    type: ClassVar[str] = "streaming"
    transient: ClassVar[bool] = True
    request_id: str
    delta: str
    done: bool


class StatusEvent(Event, frozen=True):
    """Progress, a warning, or other information for the person who watches."""

    type: ClassVar[str] = "status"
    level: StatusLevel
    message: str
    tool_call_id: str | None = None
    progress: float | None = None
    about: About | None = None
    """The subject, set by forge only; readers match it instead of the words."""
    retry: RetryNotice | None = None
    """Details of a status about ``retry``."""
    running: tuple[RunningCommand, ...] | None = None
    """All running commands, for a status about ``commands``."""
    urgent: bool | None = None
    """True for messages that are shown even if warnings are not."""

    @classmethod
    def of(cls, level: StatusLevel, message: str) -> Self:
        """Return the event of a message, with the facts that forge's own messages carry."""
        if not isinstance(message, StatusNotice):
            return cls(level, str(message))
        return cls(
            level,
            str(message),
            about=message.about,
            retry=message.retry,
            running=message.running,
            urgent=message.urgent or None,
        )


class ToolStarted(Event, frozen=True):
    """A call begins; whether it may run is not decided yet."""

    type: ClassVar[str] = "toolStarted"
    tool_call_id: str
    tool_name: str
    args: Mapping[str, Any]
    parent_call_id: str | None = None
    """The id of the call whose tool makes this one."""


class ToolOutput(Event, frozen=True):
    """The latest output of a call's command while it runs."""

    type: ClassVar[str] = "toolOutput"
    transient: ClassVar[bool] = True
    tool_call_id: str
    text: str


class ToolResult(Event, frozen=True):
    """The end of a call; every call has exactly one result."""

    type: ClassVar[str] = "toolResult"
    tool_call_id: str
    tool_name: str
    status: OutcomeStatus
    value: ResultValue
    duration_ms: int
    error: str | None = None
    distribution: str | None = None
    """For a custom result: the package or file of the tool, whose renderer draws it."""
    parent_call_id: str | None = None
    traceback: str | None = None
    """The traceback of an unexpected exception in the tool, for its author."""


class ApprovalRequired(Event, frozen=True):
    """A call waits for approval."""

    type: ClassVar[str] = "approvalRequired"
    request: ApprovalRequest

    def payload(self) -> JsonObject:
        """Return the request itself, not nested under a key."""
        return wire(self.request)

    @classmethod
    def read(cls, payload: JsonObject) -> Self:
        return cls(read(ApprovalRequest, payload))


class ApprovalDecided(Event, frozen=True):
    """The decision about a call, and who made it; every judged call has one."""

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
    """``tool:NAME`` if a tool makes the call."""
    grant: GrantOffer | None = None
    """The grant given with this answer; if ``cached``, the earlier grant that allows the call."""
    via: str | None = None
    """Where the answer came from, if not from the place that asked."""
    fingerprint: str | None = None
    """The identity of the call, as in the request."""
    provenance: tuple[ValueOrigin, ...] | None = None
    """Values that the person did not name, if the session has read untrusted text."""


class SessionGrant(OnWire, frozen=True):
    """Something that is allowed for the rest of a session."""

    tool_name: str
    text: str
    """The calls that it allows, in a few words."""
    rules: tuple[str, ...] = ()
    """The rules in the form of a policy; empty for one exact call."""


class GrantsEvent(Event, frozen=True):
    """All grants of the session, sent after each change."""

    type: ClassVar[str] = "grants"
    transient: ClassVar[bool] = True
    grants: tuple[SessionGrant, ...]


class ModeChanged(Event, frozen=True):
    """A change of the permissions of a session; sessions start and resume with ``ask``."""

    type: ClassVar[str] = "modeChanged"
    mode: SessionMode


class NetworkAccess(Event, frozen=True):
    """A command tried to connect to a host; sent only if ``sandbox.network`` is a list of hosts."""

    type: ClassVar[str] = "networkAccess"
    host: str
    port: int
    allowed: bool
    by: DecidedBy
    tool_call_id: str | None
    """The id of the call that started the command."""
    reason: str | None = None
    """The reason of a refusal."""

    def sentence(self) -> str:
        """Return the event as one line for people."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        why = f": {self.reason}" if self.reason else ""
        verb = "allowed" if self.allowed else "refused"
        return f"network: {host}:{self.port} {verb} by {self.by}{why}"


class WorkerUpdate(Event, frozen=True):
    """A child worker started or ended; the envelope names it and its depth."""

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
    """The name of its parent worker."""
    tool_call_id: str
    """The id of the call that started it."""
    within: str | None = None
    """The delegation that the parent works on; None if the parent is the root."""
    turns: int | None = None
    usage: Usage | None = None
    error: str | None = None


class ContextUsage(Event, frozen=True):
    """The use of the model's context window, and messages that were removed to make room."""

    type: ClassVar[str] = "contextUsage"
    used: int
    window: int | None
    elided: tuple[str, ...] | None = None
    """Ids of calls whose results the model no longer sees."""
    summarised: int | None = None
    """The number of messages that a summary replaces."""
    cleared: bool | None = None
    """True if the conversation starts over; the model sees nothing said before."""
    rewound: int | None = None
    """The line that the conversation returns to; the model sees nothing from that line on."""


class ManualToolsAvailable(Event, frozen=True):
    """Tools and prompts that people can use as commands now."""

    type: ClassVar[str] = "manualToolsAvailable"
    tools: tuple[Mapping[str, Any], ...]
    prompts: tuple[Mapping[str, Any], ...] | None = None
    """Messages that a command sends, each with name, description and arguments."""


class InputPrompt(Event, frozen=True):
    """A request for a line of text, one of the ``options`` if there are any."""

    type: ClassVar[str] = "inputPrompt"
    request_id: str
    prompt: str
    options: tuple[str, ...] | None = None


class TurnEndEvent(Event, frozen=True):
    """The end of a turn of the model."""

    type: ClassVar[str] = "turnEnd"
    turn: int
    stop: StopReason
    usage: Usage
    cost: float | None = None
    """The cost in dollars, if the price of the model is known."""


class SessionEnd(Event, frozen=True):
    """The last event of a session; ``result`` is what ``--output-format json`` prints."""

    type: ClassVar[str] = "sessionEnd"
    result: Mapping[str, Any]
