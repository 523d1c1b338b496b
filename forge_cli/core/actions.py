"""Action events: input from people, or from programs that act for them, to a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from forge_cli.core.approval import ApprovalDecision
from forge_cli.core.events import Event
from forge_cli.core.messages import Attachment
from forge_cli.core.wire import JsonObject, read, wire


class UserInput(Event, frozen=True):
    """A task that a person typed, or the answer to an ``InputPrompt``."""

    type: ClassVar[str] = "userInput"
    request_id: str
    content: str
    attachments: tuple[Attachment, ...] = ()
    """Files that come with a task."""

    def payload(self) -> JsonObject:
        """Return the typed text, with the attachments if there are any."""
        found = wire(self)
        if not self.attachments:
            del found["attachments"]
        return found


class ApprovalResponse(Event, frozen=True):
    """The answer to a request for approval."""

    type: ClassVar[str] = "approvalResponse"
    request_id: str
    decision: ApprovalDecision

    def payload(self) -> JsonObject:
        """Return the decision and the id of its request."""
        decision = wire(self.decision)
        # The sender of an answer cannot choose who decided: the session fills that in.
        del decision["by"]
        return {"requestId": self.request_id, **decision}

    @classmethod
    def read(cls, payload: JsonObject) -> Self:
        return read(cls, {"requestId": payload.get("requestId"), "decision": payload})


class Interrupt(Event, frozen=True):
    """A request to stop the current work."""

    type: ClassVar[str] = "interrupt"
    reason: str


class ManualToolInvoke(Event, frozen=True):
    """A person's call of a tool."""

    type: ClassVar[str] = "manualToolInvoke"
    tool_name: str
    args: Mapping[str, Any]
    tool_call_id: str | None = None
    """The id of the call if it is already running; a UI leaves it to the runtime."""
    own_command: bool | None = None
    """True for a command line of the person: it runs unless blocked, and the model sees it."""


class CommandEvent(Event, frozen=True):
    """A slash command for the runtime, such as ``clear``."""

    type: ClassVar[str] = "command"
    name: str
    args: tuple[str, ...] = ()
