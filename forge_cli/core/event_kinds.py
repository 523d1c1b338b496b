"""All kinds of events by their wire names, and reading an event by its name."""

from __future__ import annotations

from typing import get_args

from forge_cli.core.actions import (
    ApprovalResponse,
    CommandEvent,
    Interrupt,
    ManualToolInvoke,
    UserInput,
)
from forge_cli.core.events import (
    ApprovalDecided,
    ApprovalRequired,
    ContextUsage,
    Event,
    GrantsEvent,
    InputPrompt,
    ManualToolsAvailable,
    MessageEvent,
    ModeChanged,
    NetworkAccess,
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
    WorkerUpdate,
)
from forge_cli.core.trial import CommandTried, DraftEvent
from forge_cli.core.wire import JsonObject


class OtherEvent(Event, frozen=True):
    """An event that a newer version recorded, with an unknown meaning."""

    name: str
    data: JsonObject

    def payload(self) -> JsonObject:
        """Return the payload as recorded."""
        return dict(self.data)


AnyEvent = (
    SessionStart
    | SessionUpdate
    | TurnStart
    | MessageEvent
    | Streaming
    | StatusEvent
    | ToolStarted
    | ToolOutput
    | ToolResult
    | ApprovalRequired
    | ApprovalDecided
    | GrantsEvent
    | ModeChanged
    | NetworkAccess
    | CommandTried
    | DraftEvent
    | WorkerUpdate
    | ContextUsage
    | ManualToolsAvailable
    | InputPrompt
    | TurnEndEvent
    | SessionEnd
    | UserInput
    | ApprovalResponse
    | Interrupt
    | ManualToolInvoke
    | CommandEvent
    | OtherEvent
)
EVENT_KINDS: dict[str, type[AnyEvent]] = {
    kind.type: kind for kind in get_args(AnyEvent) if kind is not OtherEvent
}
"""Classes of events by their wire names."""


def read_event(name: str, payload: JsonObject) -> AnyEvent:
    """Return the event with this wire name; raise Unreadable if the payload does not fit."""
    kind = EVENT_KINDS.get(name)
    return kind.read(payload) if kind else OtherEvent(name, payload)
