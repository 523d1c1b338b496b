"""The bus as methods for a program: show things, ask things."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.core.bus import EventBus, new_id
from forge_cli.core.events import MessageEvent, StatusEvent, ToolStarted
from forge_cli.core.messages import Message


class RuntimeUI:
    """The bus as methods for a program: show things, ask things."""

    def __init__(self, bus: EventBus) -> None:
        self.bus = bus

    def show_message(self, message: Mapping[str, Any]) -> None:
        """``{"role": ..., "content": ...}``"""
        self.bus.emit(
            MessageEvent(Message(message.get("role", "assistant"), str(message.get("content", ""))))
        )

    def show_status(self, status: Mapping[str, Any]) -> None:
        """``{"level": "info", "message": ...}``, or another level; ``type`` is understood for ``level``."""
        self.bus.emit(
            StatusEvent(status.get("level", status.get("type", "info")), str(status["message"]))
        )

    def show_tool_started(self, tool_call_id: str, tool_name: str, args: Mapping[str, Any]) -> None:
        """Say that a call was taken up."""
        self.bus.emit(ToolStarted(tool_call_id, tool_name, args))

    async def request_approval(
        self, request: ApprovalRequest | Mapping[str, Any]
    ) -> ApprovalDecision:
        """Ask and wait; a mapping needs no more than a ``description``."""
        if isinstance(request, Mapping):
            request = _read_request(request)
        return await self.bus.ask(request)

    async def get_user_input(self, prompt: str = "") -> str | None:
        """Ask for a line and wait; None when no person can give one."""
        return await self.bus.ask_input(prompt)


def _read_request(given: Mapping[str, Any]) -> ApprovalRequest:
    request_id = new_id("approval")
    return ApprovalRequest(
        request_id=request_id,
        tool_call_id=given.get("tool_call_id", request_id),
        tool_name=given.get("tool_name", ""),
        args=given.get("args", {}),
        description=given["description"],
        reason=given.get("reason", "the program asks"),
        risk=given.get("risk", "high"),
        rule=None,
        where=None,
    )
