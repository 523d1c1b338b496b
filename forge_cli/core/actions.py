"""Action events: what people, and programs in their place, say to a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from forge_cli.core.approval import ApprovalDecision
from forge_cli.core.events import Event
from forge_cli.core.messages import Attachment
from forge_cli.core.wire import JsonObject, read, wire


class UserInput(Event, frozen=True):
    """Somebody has typed: a task, or the answer to an InputPrompt."""

    type: ClassVar[str] = "userInput"
    request_id: str
    content: str
    attachments: tuple[Attachment, ...] = ()
    """Files that go along with a task."""

    def payload(self) -> JsonObject:
        """The text that was typed, with attachments where there are some."""
        found = wire(self)
        return (
            found
            if self.attachments
            else {key: value for key, value in found.items() if key != "attachments"}
        )


class ApprovalResponse(Event, frozen=True):
    """Somebody has answered a request for approval."""

    type: ClassVar[str] = "approvalResponse"
    request_id: str
    decision: ApprovalDecision

    def payload(self) -> JsonObject:
        """The decision beside the request that it answers; who decided is for the session to say."""
        decision = wire(self.decision)
        del decision["by"]
        return {"requestId": self.request_id, **decision}

    @classmethod
    def read(cls, payload: JsonObject) -> Self:
        return read(cls, {"requestId": payload.get("requestId"), "decision": payload})


class Interrupt(Event, frozen=True):
    """Somebody wants the work at hand to stop."""

    type: ClassVar[str] = "interrupt"
    reason: str


class ManualToolInvoke(Event, frozen=True):
    """A person wants a tool to be called."""

    type: ClassVar[str] = "manualToolInvoke"
    tool_name: str
    args: Mapping[str, Any]
    tool_call_id: str | None = None
    """The call, where it is under way already; a UI leaves it to the runtime."""
    own_command: bool | None = None
    """True for a command line that the person typed: it runs unless it is blocked, and the model is told of it."""


class CommandEvent(Event, frozen=True):
    """The request of a slash command to the runtime, such as ``clear``."""

    type: ClassVar[str] = "command"
    name: str
    args: tuple[str, ...] = ()
