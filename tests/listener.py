"""A model that says one word, and keeps what it was told to be."""

from collections.abc import AsyncGenerator

from forge_cli.core.messages import Delta
from forge_cli.hooks import ModelRequest, TextDelta, TurnEnd


class Listener:
    name = "listener"
    context_window = None

    def __init__(self) -> None:
        self.system: list[str] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self.system.append(request.system)
        yield TextDelta("understood")
        yield TurnEnd()

    async def aclose(self) -> None:
        """Nothing is open."""
