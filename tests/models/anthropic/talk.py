"""Turns with a model, as the loop would take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio

from forge_cli.core.calls import ToolCall
from forge_cli.core.messages import (
    CallResult,
    Delta,
    Message,
    ModelRequest,
    Restart,
    TextDelta,
    ToolSpec,
    TurnEnd,
    Usage,
)
from forge_cli.models.anthropic import AnthropicModel
from forge_cli.models.anthropic.sdk import sdk_transport
from forge_cli.models.anthropic.transport import KEY, Credentials, HttpTransport

ADD = ToolSpec(
    "add", "Add two numbers.", {"type": "object", "properties": {"a": {"type": "integer"}}}
)


@dataclass(frozen=True)
class Turn:
    """Everything that came out of one turn, in order."""

    deltas: list[Delta]

    @property
    def text(self) -> str:
        """The text without the parts that restarts discarded."""
        left = ""
        for delta in self.deltas:
            if isinstance(delta, Restart):
                left = ""
            elif isinstance(delta, TextDelta):
                left += delta.text
        return left

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(delta for delta in self.deltas if isinstance(delta, ToolCall))

    @property
    def restarts(self) -> list[str]:
        return [delta.reason for delta in self.deltas if isinstance(delta, Restart)]

    @property
    def end(self) -> TurnEnd:
        *before, end = self.deltas
        assert isinstance(end, TurnEnd)
        assert not any(isinstance(delta, TurnEnd) for delta in before)
        return end

    @property
    def stop(self) -> str:
        return self.end.stop

    @property
    def usage(self) -> Usage:
        return self.end.usage

    @property
    def message(self) -> Message:
        """The turn as the loop keeps it."""
        return Message("assistant", self.text, self.calls, native=self.end.native)


@dataclass
class Talk:
    """A conversation with one model over a real connection; ``notes`` are the model's notices."""

    key: str
    url: str | None
    transport: str = "http"
    model: str = "claude-haiku-5-5"
    silence: float = 20.0
    system: str = "Be brief."
    tools: Sequence[ToolSpec] = (ADD,)
    history: list[Message] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)

    def provider(self) -> AnthropicModel:
        access = Credentials(KEY, self.key, self.url)
        make = sdk_transport if self.transport == "sdk" else HttpTransport
        told = lambda level, message: self.notes.append((level, message))  # noqa: E731
        transport = make(access, self.silence)
        return AnthropicModel(f"anthropic:{self.model}", transport, told, delays=(0.001,))

    def turns(self, count: int, *said: Message) -> list[Turn]:
        """Take some turns with one provider; every call gets a result."""
        return anyio.run(self._turns, count, said)

    def turn(self, *said: Message | str) -> Turn:
        return self.turns(
            1, *(Message("user", part) if isinstance(part, str) else part for part in said)
        )[0]

    async def _turns(self, count: int, said: Sequence[Message]) -> list[Turn]:
        provider = self.provider()
        self.history += said or [Message("user", "go")]
        taken: list[Turn] = []
        try:
            with anyio.fail_after(60):
                for _ in range(count):
                    request = ModelRequest(self.system, self.history, self.tools)
                    taken.append(Turn([delta async for delta in provider.stream(request)]))
                    self.history.append(taken[-1].message)
                    if calls := taken[-1].calls:
                        self.history.append(
                            Message("tool", results=tuple(_result(call) for call in calls))
                        )
        finally:
            await provider.aclose()
        return taken


def _result(call: ToolCall) -> CallResult:
    return CallResult(call.id, call.name, "3", is_error=False)
