"""Events of a session, and their parts: messages, calls, approvals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge_cli.core.actions import (
    ApprovalResponse,
    CommandEvent,
    Interrupt,
    ManualToolInvoke,
    UserInput,
)
from forge_cli.core.approval import (
    ApprovalMode,
    CommandRun,
    FoldedLine,
    GrantOffer,
    GrantRule,
    JudgedPart,
    OnAsk,
    ValueOrigin,
)
from forge_cli.core.calls import Denial, OutcomeStatus, ToolCall, ToolOutcome
from forge_cli.core.event_kinds import OtherEvent
from forge_cli.core.events import (
    ApprovalDecided,
    ApprovalRequired,
    ContextUsage,
    GrantsEvent,
    InputPrompt,
    ManualToolsAvailable,
    MessageEvent,
    ModeChanged,
    NetworkAccess,
    Origin,
    SessionEnd,
    SessionGrant,
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
from forge_cli.core.messages import Attachment, CallResult, Message, StopReason, Summary, Usage
from forge_cli.core.notify import RetryNotice, RunningCommand
from forge_cli.core.trial import (
    CommandTried,
    DraftCheck,
    DraftEvent,
    TrialExtent,
    TriedChange,
    TriedWant,
)
from forge_cli.core.wire import JsonObject
from forge_cli.record.line import Line

__all__ = [
    "ApprovalDecided",
    "ApprovalMode",
    "ApprovalRequired",
    "ApprovalResponse",
    "Attachment",
    "CallResult",
    "CommandEvent",
    "CommandRun",
    "CommandTried",
    "ContextUsage",
    "Denial",
    "DraftCheck",
    "DraftEvent",
    "FoldedLine",
    "GrantOffer",
    "GrantRule",
    "GrantsEvent",
    "InputPrompt",
    "Interrupt",
    "JsonObject",
    "JudgedPart",
    "Line",
    "ManualToolInvoke",
    "ManualToolsAvailable",
    "Message",
    "MessageEvent",
    "ModeChanged",
    "NetworkAccess",
    "OnAsk",
    "Origin",
    "OtherEvent",
    "OutcomeStatus",
    "RetryNotice",
    "RunningCommand",
    "SessionEnd",
    "SessionGrant",
    "SessionStart",
    "SessionUpdate",
    "StatusEvent",
    "StopReason",
    "Streaming",
    "Summary",
    "ToolCall",
    "ToolOutcome",
    "ToolOutput",
    "ToolResult",
    "ToolStarted",
    "TrialExtent",
    "TriedChange",
    "TriedWant",
    "TurnEndEvent",
    "TurnStart",
    "Usage",
    "UserInput",
    "ValueOrigin",
    "WorkerUpdate",
]


if not TYPE_CHECKING:  # with it, a type checker would accept every name

    def __getattr__(name: str) -> None:
        from forge_cli.homes import missing

        raise missing(__name__, name)
