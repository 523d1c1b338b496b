"""Whether a line of a log has what it should have; people edit files, and a record is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from forge_cli.core.results import for_model, from_wire
from forge_cli.core.signature import JsonObject

CHECKED = ("sessionStart", "turnStart", "turnEnd", "message", "toolStarted", "approvalDecided", "toolResult")


def is_sound(line: JsonObject) -> bool:
    """Can it be read as what it says it is? Of events that nobody reads back, anything is."""
    match line:
        case {"type": "sessionStart", "session": str(), "worker": str(), "model": str(), "workspace": str()}:
            return isinstance(line.get("workerFile"), str | None)
        case {"type": "turnStart", "turn": int(), "tools": list(tools)}:
            return all(isinstance(name, str) for name in tools) and _all(_is_spec, line.get("specs", []))
        case {"type": "turnEnd", "stop": str(), "usage": dict(usage)}:
            return all(isinstance(count, int) for count in usage.values())
        case {"type": "message", "message": {"role": str(), "content": str()} as message}:
            return _all(_is_call, message.get("calls", []))
        case {"type": "toolStarted", "toolCallId": str(), "toolName": str(), "args": dict()}:
            return True
        case {"type": "approvalDecided", "toolCallId": str(), "verdict": str()}:
            return True
        case {"type": "toolResult", "toolCallId": str(), "toolName": str(), "status": str(), "value": value}:
            return _has_text(value)
        case _:
            return line["type"] not in CHECKED


def _all(check: Callable[[Any], bool], value: Any) -> bool:
    return isinstance(value, list) and all(map(check, value))


def _is_call(call: Any) -> bool:
    match call:
        case {"toolCallId": str(), "toolName": str(), "args": dict()}:
            return True
        case _:
            return False


def _is_spec(spec: Any) -> bool:
    match spec:
        case {"name": str(), "description": str(), "inputSchema": dict()}:
            return True
        case _:
            return False


def _has_text(value: Any) -> bool:
    try:
        for_model(from_wire(value))
    except (AttributeError, TypeError):
        return False
    return True
