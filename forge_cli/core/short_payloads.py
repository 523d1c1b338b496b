"""Payloads of events that a program emits by name: defaults added, unknown keys refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from forge_cli.core.actions import ApprovalResponse
from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.core.event_kinds import AnyEvent
from forge_cli.core.events import ApprovalRequired, MessageEvent
from forge_cli.core.messages import Message
from forge_cli.core.text import did_you_mean, visible
from forge_cli.core.wire import JsonObject, Unreadable, wire_keys

_DEFAULTS: Final[Mapping[str, JsonObject]] = {
    "streaming": {"done": False},
    "interrupt": {"reason": "interrupted"},
    "manualToolInvoke": {"args": {}},
    "toolStarted": {"args": {}},
    "toolResult": {"durationMs": 0},
    "approvalRequired": {
        "toolName": "",
        "args": {},
        "description": "",
        "reason": "",
        "risk": "medium",
        "rule": None,
        "where": None,
    },
}

ENVELOPE: Final = (
    "v",
    "seq",
    "time",
    "session",
    "worker",
    "depth",
    "delegation",
    "type",
    "prev",
    "proof",
    "hash",
)
"""Keys of a record line besides its payload, so that whole lines can be emitted."""


def check_keys(kind: type[AnyEvent], payload: Mapping[str, Any]) -> None:
    """Raise Unreadable for a key that the event does not have, with the nearest known key."""
    if kind is ApprovalResponse:
        known: tuple[str, ...] = ("requestId", *wire_keys(ApprovalDecision))
    elif kind is ApprovalRequired:
        known = ("type", *wire_keys(ApprovalRequest))
    elif kind is MessageEvent:
        known = ("message",)
        said = payload.get("message")
        if isinstance(said, Mapping):
            more = (key for key in wire_keys(MessageEvent) if key != "message")
            _check(said, (*wire_keys(Message), *more), "message: ")
    else:
        # Only a whole line of a record has the version ``v``.
        known = wire_keys(kind)
    _check(payload, known, "", ENVELOPE if "v" in payload else ())


def _check(
    given: Mapping[str, Any], known: tuple[str, ...], place: str, others: tuple[str, ...] = ()
) -> None:
    for key in given:
        if key not in known and key not in others:
            raise Unreadable(
                f"{place}unknown key '{visible(str(key))}'; {did_you_mean(str(key), known)}"
            )


def complete(name: str, payload: Mapping[str, Any]) -> JsonObject:
    """Return the payload with defaults for optional keys; given values stay the same."""
    full = {**_DEFAULTS.get(name, {}), **payload}
    if name == "status" and "level" not in full and "type" in full:
        full["level"] = full.pop("type")
    if name == "approvalRequired" and "requestId" in full:
        full.setdefault("toolCallId", full["requestId"])
    if name == "toolResult" and full.get("status") != "success":
        problem = full.get("error") or full.get("status") or ""
        full.setdefault("value", {"kind": "text", "content": str(problem)})
    return full
