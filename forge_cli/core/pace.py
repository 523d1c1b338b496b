"""How fast models are asked: a task alone as fast as it likes, the items of a batch all at one pace."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import ContextVar
from typing import Protocol


class Pace(Protocol):
    """Decides when the next request may go out, for everybody who shares it."""

    def request(self) -> AbstractAsyncContextManager[None]:
        """Around one request: waits for its turn, and learns how it ended."""
        ...

    def go_ahead(self) -> None:
        """Within a request: others need not wait for its answer."""
        ...

    def tell(self, problem: str) -> None:
        """A request has failed, and is made again."""
        ...

    def hold(self, seconds: float) -> None:
        """Within a request: the provider is busy, and wants no further one for so long."""
        ...

    async def back_off(self, seconds: float) -> None:
        """The same, and wait for the next turn."""
        ...


current_pace: ContextVar[Pace | None] = ContextVar("current_pace", default=None)
"""The pace of the task that runs; None where nobody shares one."""


def paced_request() -> AbstractAsyncContextManager[None]:
    """Around one request to a model, at the pace of the task that runs."""
    pace = current_pace.get()
    return pace.request() if pace else nullcontext()


def let_others_go() -> None:
    """Within a request: its prompt is in the provider's cache."""
    if pace := current_pace.get():
        pace.go_ahead()
