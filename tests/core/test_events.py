"""Every event with its name and payload on the wire.

Covers forge_cli.core.actions, forge_cli.core.event_kinds, forge_cli.core.trial.
"""

from typing import Any

import pytest

from forge_cli.core.actions import ApprovalResponse, Interrupt, ManualToolInvoke, UserInput
from forge_cli.core.approval import ApprovalDecision
from forge_cli.core.event_kinds import EVENT_KINDS
from forge_cli.core.events import (
    Event,
    GrantsEvent,
    InputPrompt,
    ManualToolsAvailable,
    MessageEvent,
    ModeChanged,
    SessionEnd,
    SessionGrant,
    SessionStart,
    SessionUpdate,
    StatusEvent,
    Streaming,
    ToolResult,
    ToolStarted,
    TurnEndEvent,
    TurnStart,
)
from forge_cli.core.messages import Attachment, Message, Usage
from forge_cli.core.notify import RetryNotice, StatusNotice
from forge_cli.core.results import Json, Text
from forge_cli.core.trial import CommandTried, DraftCheck, DraftEvent, TriedChange, TriedWant

PAYLOADS: list[tuple[Event, dict[str, Any]]] = [
    (
        SessionStart("script:demo.yaml", "/project", "interactive"),
        {"model": "script:demo.yaml", "workspace": "/project", "approvalMode": "interactive"},
    ),
    (
        CommandTried(
            "c1",
            "effects",
            0,
            5,
            (TriedChange("a", "created", 1), TriedChange("b", "renamed", 1, "c")),
            (TriedWant("network", "example.org:443"),),
        ),
        {
            "toolCallId": "c1",
            "outcome": "effects",
            "exitCode": 0,
            "durationMs": 5,
            "changed": [
                {"path": "a", "change": "created", "bytes": 1},
                {"path": "b", "change": "renamed", "bytes": 1, "renamedFrom": "c"},
            ],
            "wanted": [{"kind": "network", "what": "example.org:443"}],
            "applied": False,
            "programs": [],
        },
    ),
    (TurnStart(1, "abc", ("add",)), {"turn": 1, "requestDigest": "abc", "tools": ["add"]}),
    (MessageEvent(Message("user", "hi")), {"message": {"role": "user", "content": "hi"}}),
    (Streaming("s1", "Hel", done=False), {"requestId": "s1", "delta": "Hel", "done": False}),
    (StatusEvent("info", "half"), {"level": "info", "message": "half"}),
    (
        StatusEvent("info", "half", "c1", 0.5),
        {"level": "info", "message": "half", "toolCallId": "c1", "progress": 0.5},
    ),
    (
        StatusEvent.of("warning", StatusNotice.of_retry(RetryNotice("it broke", 0.5, 2, 5))),
        {
            "level": "warning",
            "message": "it broke; trying again in 0.5 s (2 of 5)",
            "about": "retry",
            "retry": {"problem": "it broke", "wait": 0.5, "attempt": 2, "attempts": 5},
        },
    ),
    (
        StatusEvent.of("warning", StatusNotice("gone", "server", urgent=True)),
        {"level": "warning", "message": "gone", "about": "server", "urgent": True},
    ),
    (
        ToolStarted("c1", "add", {"a": 1, "b": float("inf")}),
        {"toolCallId": "c1", "toolName": "add", "args": {"a": 1, "b": "inf"}},
    ),
    (
        ToolResult("c1", "add", "success", Json(3), 5),
        {
            "toolCallId": "c1",
            "toolName": "add",
            "status": "success",
            "value": {"kind": "json", "data": 3},
            "durationMs": 5,
        },
    ),
    (
        ToolResult("c1", "add", "denied", Text("no"), 5, "no"),
        {
            "toolCallId": "c1",
            "toolName": "add",
            "status": "denied",
            "value": {"kind": "text", "content": "no"},
            "durationMs": 5,
            "error": "no",
        },
    ),
    (ManualToolsAvailable(({"name": "push"},)), {"tools": [{"name": "push"}]}),
    (InputPrompt("i1", "name?"), {"requestId": "i1", "prompt": "name?"}),
    (
        TurnEndEvent(1, "end", Usage(1, 2)),
        {
            "turn": 1,
            "stop": "end",
            "usage": {
                "inputTokens": 1,
                "outputTokens": 2,
                "cacheReadTokens": 0,
                "cacheWriteTokens": 0,
            },
        },
    ),
    (SessionEnd({"exit_code": 0}), {"result": {"exit_code": 0}}),
    (UserInput("i1", "me"), {"requestId": "i1", "content": "me"}),
    (
        UserInput("", "look", (Attachment("a.txt", "text/plain", b"x"),)),
        {
            "requestId": "",
            "content": "look",
            "attachments": [{"name": "a.txt", "mediaType": "text/plain", "text": "x"}],
        },
    ),
    (SessionUpdate(title="Sheep"), {"title": "Sheep"}),
    (SessionUpdate(model="m", zones=({"name": "a"},)), {"model": "m", "zones": [{"name": "a"}]}),
    (
        GrantsEvent((SessionGrant("add", "a=1", ("rule",)),)),
        {"grants": [{"toolName": "add", "text": "a=1", "rules": ["rule"]}]},
    ),
    (
        TurnEndEvent(1, "end", Usage(), 0.5),
        {"turn": 1, "stop": "end", "usage": Usage().wire(), "cost": 0.5},
    ),
    (
        SessionStart(
            "m", "/w", "interactive", title="t", isolation="strict", session="s", worker="w"
        ),
        {
            "model": "m",
            "workspace": "/w",
            "approvalMode": "interactive",
            "title": "t",
            "isolation": "strict",
        },
    ),
    (
        ApprovalResponse("a1", ApprovalDecision(False, note="no")),
        {"requestId": "a1", "approved": False, "note": "no"},
    ),
    (ModeChanged("acceptEdits"), {"mode": "acceptEdits"}),
    (
        DraftEvent(
            "d1",
            "ready",
            (TriedChange("a", "created", 2),),
            ("b",),
            DraftCheck("make test", 2, "1 failed"),
            ("d1", "d2"),
        ),
        {
            "id": "d1",
            "state": "ready",
            "changes": [{"path": "a", "change": "created", "bytes": 2}],
            "conflicts": ["b"],
            "check": {"command": "make test", "exitCode": 2, "output": "1 failed"},
            "attempts": ["d1", "d2"],
        },
    ),
    (Interrupt("enough"), {"reason": "enough"}),
    (
        ManualToolInvoke("push", {"branch": "main"}),
        {"toolName": "push", "args": {"branch": "main"}},
    ),
    (
        ManualToolInvoke("shell", {}, own_command=True),
        {"toolName": "shell", "args": {}, "ownCommand": True},
    ),
]


@pytest.mark.parametrize(("event", "payload"), PAYLOADS)
def test_each_event_has_its_payload(event: Event, payload: dict[str, Any]) -> None:
    assert event.payload() == payload


def test_event_names_are_stable() -> None:
    """Logs and programs have them: none may change, and a new one gets its line here."""
    assert set(EVENT_KINDS) == {
        "sessionStart",
        "sessionUpdate",
        "turnStart",
        "message",
        "streaming",
        "status",
        "toolStarted",
        "toolOutput",
        "toolResult",
        "approvalRequired",
        "approvalDecided",
        "grants",
        "modeChanged",
        "networkAccess",
        "trial",
        "draft",
        "workerUpdate",
        "contextUsage",
        "manualToolsAvailable",
        "inputPrompt",
        "turnEnd",
        "sessionEnd",
        "userInput",
        "approvalResponse",
        "interrupt",
        "manualToolInvoke",
        "command",
    }


def test_transient_events_have_their_content_elsewhere_in_the_record() -> None:
    assert [event.type for event in EVENT_KINDS.values() if event.transient] == [
        "streaming",
        "toolOutput",
        "grants",
    ]
