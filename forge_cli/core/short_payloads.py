"""Payloads that a program emits by name and that leave out what goes without saying."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from forge_cli.core.wire import JsonObject

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


def complete(name: str, payload: Mapping[str, Any]) -> JsonObject:
    """Return the payload with the keys that may be left out; what is there stays as it is."""
    full = {**_DEFAULTS.get(name, {}), **payload}
    if name == "status" and "level" not in full and "type" in full:
        full["level"] = full.pop("type")
    if name == "approvalRequired" and "requestId" in full:
        full.setdefault("toolCallId", full["requestId"])
    if name == "toolResult" and full.get("status") != "success":
        full.setdefault("value", {"kind": "text", "content": str(full.get("error") or full.get("status") or "")})
    return full
