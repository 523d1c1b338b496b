"""What a server may ask of a session through its toolset: a turn of the model, or answers of the person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from forge_cli.core.errors import ToolError
from forge_cli.core.messages import Message, StopReason
from forge_cli.core.wire import JsonObject


@dataclass(frozen=True, kw_only=True)
class SampleRequest:
    """Somebody wants the worker's model to answer messages that are not part of the conversation."""

    asker: str
    """Who wants it, as people are told: ``the MCP server notes``."""
    messages: tuple[Message, ...]
    system: str = ""


@dataclass(frozen=True)
class SampleReply:
    """What the model answered."""

    text: str
    model: str
    stop: StopReason


class SessionRequests(Protocol):
    """Serves what others ask of a session; what is refused is a ToolError."""

    @property
    def attended(self) -> bool:
        """Whether somebody is there who could be told, and could do something about it."""
        ...

    async def sample(self, request: SampleRequest) -> SampleReply:
        """Have the worker's model answer; ToolError where that is refused or fails."""

    async def ask_person(self, asker: str, message: str, schema: JsonObject) -> JsonObject | None:
        """What a person fills into a form; None where that is declined, or nobody is there."""
        ...


class NoSession:
    """Where no session is, nothing can be asked of it."""

    attended = False

    async def sample(self, request: SampleRequest) -> SampleReply:
        raise ToolError("there is no session whose model could answer")

    async def ask_person(self, asker: str, message: str, schema: JsonObject) -> JsonObject | None:
        return None
