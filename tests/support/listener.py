"""A model that stores its requests and plays given turns, or one word."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from msgspec.structs import replace

from forge_cli.core.messages import Delta
from forge_cli.hooks import ModelRequest, TextDelta, TurnEnd
from forge_cli.testing import scripted_model


class Listener:
    name = "listener"
    context_window: int | None = None

    def __init__(self, *turns: Sequence[Delta]) -> None:
        self.turns = list(turns)
        self.requests: list[ModelRequest] = []
        self.closed = False

    @classmethod
    def scripted(cls, *turns: Any) -> "Listener":
        """The same with turns as in a script."""
        listener = cls()
        listener.answer = scripted_model(*turns).stream  # type: ignore[method-assign]
        return listener

    @property
    def system(self) -> list[str]:
        return [request.system for request in self.requests]

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self.requests.append(replace(request, messages=list(request.messages)))
        async for delta in self.answer(request):
            yield delta

    async def answer(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        for delta in self.turns.pop(0) if self.turns else [TextDelta("understood"), TurnEnd()]:
            yield delta

    async def aclose(self) -> None:
        self.closed = True
