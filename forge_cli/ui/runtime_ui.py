"""Messages and questions of a program on the bus of its runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.core.bus import EventBus, new_id
from forge_cli.core.events import MessageEvent, StatusEvent, ToolStarted
from forge_cli.core.messages import Message


class RuntimeUI:
    """Methods for programs that show messages and ask questions on a bus."""

    def __init__(self, bus: EventBus) -> None:
        self.bus = bus

    def show_message(self, message: Mapping[str, Any]) -> None:
        """Show ``{"role": ..., "content": ...}``."""
        self.bus.emit(
            MessageEvent(Message(message.get("role", "assistant"), str(message.get("content", ""))))
        )

    def show_status(self, status: Mapping[str, Any]) -> None:
        """Show ``{"level": "info", "message": ...}``; ``type`` is an alias of ``level``."""
        self.bus.emit(
            StatusEvent(status.get("level", status.get("type", "info")), str(status["message"]))
        )

    def show_tool_started(self, tool_call_id: str, tool_name: str, args: Mapping[str, Any]) -> None:
        """Show that a call has started."""
        self.bus.emit(ToolStarted(tool_call_id, tool_name, args))

    async def request_approval(
        self, request: ApprovalRequest | Mapping[str, Any]
    ) -> ApprovalDecision:
        """Ask and wait for the decision; a mapping needs only a ``description``."""
        if isinstance(request, Mapping):
            request = _read_request(request)
        return await self.bus.ask(request)

    async def get_user_input(self, prompt: str = "") -> str | None:
        """Ask for a line and wait; return None if no person can answer."""
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
