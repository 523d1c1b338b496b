"""Facts that the events of a conversation have told so far, for its status line and its commands."""

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
"""The kind of result that is a plan."""


class ManualTool(Struct, frozen=True):
    """A tool that the person may call."""

    name: str
    label: str
    category: str | None
    description: str
    input_schema: JsonObject
    fields: tuple[Mapping[str, Any], ...] = ()

    @property
    def summary(self) -> str:
        """The first line of its description."""
        return next(iter(self.description.splitlines()), "")

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> ManualTool:
        """One entry of ``manualToolsAvailable``; an older record has no fields in it."""
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
    """Kept up by ``note``, which is given every event."""

    models: Callable[[], Sequence[str]] = tuple
    """The names that ``/model`` completes, set where the conversation starts."""
    tools: Callable[[], Sequence[Tool]] = tuple
    """All tools of the worker, those of the model too; set where it runs."""
    keys: Sequence[tuple[str, str]] = ()
    """The keys of the UI, and what they do, for ``/help``."""
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
    """The confinement of commands, once the worker has named it."""
    zones: tuple[Mapping[str, Any], ...] = ()
    turns: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: float | None = 0.0
    """In dollars; None once a part of it is unknown."""
    used: int | None = None
    """Tokens of the history."""
    window: int | None = None
    manual_tools: dict[str, ManualTool] = field(default_factory=dict)
    prompts: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Messages that the person may send by a command of that name."""
    grants: tuple[events.SessionGrant, ...] = ()
    plan: tuple[Mapping[str, Any], ...] = ()
    running: tuple[RunningCommand, ...] = ()
    """Commands that work on in the background."""
    last_answer: str = ""

    @property
    def modes(self) -> tuple[SessionMode, ...]:
        """The modes that the person may choose from."""
        return modes_within(self.approval_mode, read_only=self.read_only)

    @property
    def mode_title(self) -> str:
        """The mode in a few words; where the approval mode answers instead of the person, that."""
        if self.mode != "ask":
            return MODE_TITLES[self.mode]
        mode = "ask" if self.approval_mode == "interactive" else self.approval_mode
        return f"{mode}{', read-only' if self.read_only else ''}"

    def take(self, line: Line) -> None:
        """Note a line of the record; one that somebody broke tells nothing."""
        with suppress(BadLine):
            origin = (
                events.Origin(line.worker, line.depth, line.delegation, ())
                if line.delegation
                else None
            )
            self.note(replace(line.event, origin=origin))

    def note(self, event: events.Event) -> None:
        match event:
            case events.TurnEndEvent():
                self.usage += event.usage
                self.cost = (
                    None if self.cost is None or event.cost is None else self.cost + event.cost
                )
            case _ if event.origin is not None:
                pass
            case events.TurnStart():
                self.turns += 1
            case events.SessionStart():
                self._start(event)
            case events.SessionUpdate():
                self._update(event)
            case events.ContextUsage():
                rewound = (
                    event.rewound is not None
                )  # its words are counted, and not what is sent along with them
                self.used = None if rewound else event.used
                self.window = event.window or self.window
                self.plan = () if event.cleared else self.plan
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
        self.grants = ()
        self.manual_tools = {}
        self.prompts = {}
        self.mode = "ask"
        self.running = ()

    def _update(self, event: events.SessionUpdate) -> None:
        if event.model and event.model != self.model:
            self.model = event.model
            self.window = None
        self.title = event.title or self.title
        self.approval_mode = event.approval_mode or self.approval_mode
        self.isolation = event.isolation or self.isolation
        self.zones = self.zones if event.zones is None else event.zones
        if event.usage:
            self.usage += event.usage
