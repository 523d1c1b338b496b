"""Every kind of event by its name on the wire: those that go to the UI, those that come from it, and unknown ones."""

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
from forge_cli.core.trial import CommandTried
from forge_cli.core.wire import JsonObject


class OtherEvent(Event, frozen=True):
    """An event that a newer forge recorded; this one does not know what it means."""

    name: str
    data: JsonObject

    def payload(self) -> JsonObject:
        """The payload as it was recorded."""
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
"""By their names on the wire."""


def read_event(name: str, payload: JsonObject) -> AnyEvent:
    """The event of that name on the wire; Unreadable where the payload is not one of its own."""
    kind = EVENT_KINDS.get(name)
    return kind.read(payload) if kind else OtherEvent(name, payload)
