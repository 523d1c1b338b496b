"""``forge tools call`` inside of a program that is a tool itself: the forge that started it makes the call."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from forge_cli.core.calls import ToolCall, ToolOutcome
from forge_cli.core.errors import ForgeError
from forge_cli.core.events import ToolResult
from forge_cli.core.wire import JsonObject, Unreadable
from forge_cli.sandbox.processes.command import CALLS
from forge_cli.sandbox.processes.requests import send_request


def pipes_of_caller() -> Path | None:
    """Where the forge answers that has started this process as a tool, if it does."""
    given = os.environ.get(CALLS)
    return Path(given) if given else None


def call_through(pipes: Path, name: str, read_args: Callable[[JsonObject], JsonObject]) -> ToolOutcome:
    """Have the call made; ``read_args`` is given the schema of the tool."""
    answer = send_request(pipes, {"tool": name})
    schema = answer.get("schema")
    if isinstance(schema, dict):
        answer = send_request(pipes, {"tool": name, "args": read_args(schema)})
    try:
        result = ToolResult.read(answer.get("result") or {})
    except Unreadable as error:
        raise ForgeError(f"{pipes} gives an answer that is not a result: {error}") from None
    call = ToolCall(result.tool_call_id, result.tool_name, {})
    return ToolOutcome(call, result.status, result.value, result.error, result.duration_ms)
