"""The current state of a conversation, collected from its events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core import events
from forge_cli.core.approval import MODE_TITLES, SessionMode, modes_within
from forge_cli.core.messages import Usage
from forge_cli.core.notify import COMMANDS, RunningCommand
from forge_cli.core.results import Custom
from forge_cli.core.wire import JsonObject
from forge_cli.record.line import BadLine, Line
from forge_cli.schema.tool import Tool

PLAN = "plan.update"
"""The kind of the result that updates the plan."""


class ManualTool(Struct, frozen=True):
    """A tool that a person may call."""

    name: str
    label: str
    category: str | None
    description: str
    input_schema: JsonObject
    fields: tuple[Mapping[str, Any], ...] = ()

    @property
    def summary(self) -> str:
        """The first line of the description."""
        return next(iter(self.description.splitlines()), "")

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> ManualTool:
        """Read one entry of ``manualToolsAvailable``; older logs have no ``fields`` in it."""
        return cls(
            str(entry["name"]),
            str(entry.get("label") or entry["name"]),
            entry.get("category"),
            str(entry.get("description", "")),
            entry.get("inputSchema") or {},
            tuple(entry.get("fields") or ()),
        )


@dataclass
class Facts:
    """The current state of a conversation; pass every event to ``note``."""

    models: Callable[[], Sequence[str]] = tuple
    """Model names that ``/model`` completes."""
    tools: Callable[[], Sequence[Tool]] = tuple
    """All tools of the worker, including tools for the model only."""
    keys: Sequence[tuple[str, str]] = ()
    """Keys of the UI with their effects, for ``/help``."""
    session: str = ""
    worker: str = ""
    title: str = ""
    model: str = ""
    workspace: str = ""
    approval_mode: str = ""
    read_only: bool = False
    mode: SessionMode = "ask"
    isolation: str = ""
    confinement: str = ""
    """The confinement of commands; empty until the worker reports it."""
    zones: tuple[Mapping[str, Any], ...] = ()
    turns: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: float | None = 0.0
    """The cost in dollars; None if a part of it is unknown."""
    used: int | None = None
    """Tokens in the history."""
    window: int | None = None
    manual_tools: dict[str, ManualTool] = field(default_factory=dict)
    prompts: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Prompts that a person can send, by the name of their command."""
    grants: tuple[events.SessionGrant, ...] = ()
    plan: tuple[Mapping[str, Any], ...] = ()
    running: tuple[RunningCommand, ...] = ()
    """Commands that run in the background."""
    last_answer: str = ""

    @property
    def modes(self) -> tuple[SessionMode, ...]:
        """The modes that a person can choose."""
        return modes_within(self.approval_mode, read_only=self.read_only)

    @property
    def mode_title(self) -> str:
        """The mode in a few words, or the approval mode that answers in place of the person."""
        if self.mode != "ask":
            return MODE_TITLES[self.mode]
        if self.approval_mode == "interactive":
            mode = "ask"
        else:
            mode = self.approval_mode
        if self.read_only:
            return f"{mode}, read-only"
        return mode

    def take(self, line: Line) -> None:
        """Update the state from a line of the log; a damaged line is skipped."""
        with suppress(BadLine):
            # A recorded event has no origin: the line around it names the worker.
            origin = None
            if line.delegation:
                origin = events.Origin(line.worker, line.depth, line.delegation, ())
            self.note(replace(line.event, origin=origin))

    def note(self, event: events.Event) -> None:
        """Update the state from an event."""
        match event:
            case events.TurnEndEvent():
                self.usage += event.usage
                if self.cost is None or event.cost is None:
                    self.cost = None
                else:
                    self.cost += event.cost
            case _ if event.origin is not None:
                pass  # of a child worker only the usage counts
            case events.TurnStart():
                self.turns += 1
            case events.SessionStart():
                self._start(event)
            case events.SessionUpdate():
                self._update(event)
            case events.ContextUsage():
                # After a rewind only the messages are counted, not the instructions and tools.
                self.used = event.used if event.rewound is None else None
                self.window = event.window or self.window
                if event.cleared:
                    self.plan = ()
            case events.ManualToolsAvailable():
                self.manual_tools = {tool.name: tool for tool in map(ManualTool.of, event.tools)}
                self.prompts = {str(prompt["name"]): prompt for prompt in event.prompts or ()}
            case events.StatusEvent(running=tuple() as running):
                self.running = running
            case events.StatusEvent(about="confinement", message=message, urgent=None):
                self.confinement = message.removeprefix(COMMANDS)
            case events.ModeChanged():
                self.mode = event.mode
            case events.GrantsEvent():
                self.grants = event.grants
            case events.MessageEvent(message=message) if (
                message.role == "assistant" and message.text and not message.calls
            ):
                self.last_answer = message.text
            case events.ToolResult(value=Custom(kind=kind, data={"plan": list() as plan})) if (
                kind == PLAN
            ):
                self.plan = tuple(step for step in plan if isinstance(step, Mapping))
            case _:
                pass

    def _start(self, event: events.SessionStart) -> None:
        self.model = event.model
        self.workspace = event.workspace
        self.approval_mode = event.approval_mode
        self.session = event.session or self.session
        self.worker = event.worker or self.worker
        self.title = event.title or self.title
        self.zones = event.zones or ()
        self.isolation = event.isolation or ""
        self.read_only = bool(event.read_only)
        # A resumed session starts without the grants, mode and commands of its last process.
        self.grants = ()
        self.manual_tools = {}
        self.prompts = {}
        self.mode = "ask"
        self.running = ()

    def _update(self, event: events.SessionUpdate) -> None:
        if event.model and event.model != self.model:
            self.model = event.model
            self.window = None  # the old value is that of the other model
        self.title = event.title or self.title
        self.approval_mode = event.approval_mode or self.approval_mode
        self.isolation = event.isolation or self.isolation
        if event.zones is not None:
            self.zones = event.zones
        if event.usage:
            self.usage += event.usage
