"""Calls and their outcomes: what a model or a person asks for, and the one result that every call gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from forge_cli.core.results import VALUE_LIMIT, ResultValue, Text, for_model
from forge_cli.core.signature import JsonObject
from forge_cli.core.text import cut

OutcomeStatus = Literal["success", "error", "denied", "blocked", "invalid", "not_found", "interrupted", "timeout"]


@dataclass(frozen=True)
class ToolCall:
    """What a model or a person asks for; ``unreadable`` is the text of its args where they are not a JSON object."""

    id: str
    name: str
    args: JsonObject
    unreadable: str | None = None


@dataclass(frozen=True)
class ToolOutcome:
    """The one result that every call gets."""

    call: ToolCall
    status: OutcomeStatus
    value: ResultValue
    error: str | None = None
    duration_ms: int = 0
    by: str | None = None

    @property
    def ok(self) -> bool:
        return self.status == "success"

    def text(self) -> str:
        """What the model reads."""
        return for_model(self.value)

    @classmethod
    def failed(cls, call: ToolCall, status: OutcomeStatus, sentence: str, *, by: str | None = None) -> ToolOutcome:
        kept = cut(sentence, VALUE_LIMIT)
        return cls(call, status, Text(kept), error=kept, by=by)
