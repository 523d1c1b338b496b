"""The parts of a session that the gate of a worker asks, and that are built above it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from forge_cli.core.wire import JsonObject

if TYPE_CHECKING:
    from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
    from forge_cli.core.calls import ToolOutcome
    from forge_cli.engine.gate.steps import Judged

Given = TypeVar("Given")
"""The answer to a question: a decision, or the values of a form."""


class WorkerHooks(Protocol):
    """The hooks of the person on the calls of a worker, which may make a verdict stricter."""

    async def before(self, judged: Judged) -> Judged:
        """Return the call with a verdict that is at least as strict."""
        ...

    async def after(self, outcome: ToolOutcome, judged: Judged | None) -> None:
        """Report the outcome of a call."""
        ...

    async def while_asked(
        self,
        request: ApprovalRequest,
        names: Sequence[str],
        ask: Callable[[], Awaitable[Given]],
        *,
        form: bool,
    ) -> Given | ApprovalDecision:
        """Return what ``ask`` gives, or the decision of a hook that denies it; ``names`` are what a hook may match."""
        ...

    async def session_starts(self) -> None:
        """Report the begin of a session, which a hook may refuse."""
        ...

    async def session_ends(self) -> None:
        """Report the end of a session."""
        ...

    def facts(self) -> list[JsonObject]:
        """Describe every hook that holds here."""
        ...

    def facts_before(self, judged: Judged) -> list[JsonObject]:
        """Describe the hooks that a call would be put to."""
        ...


class RecordedCalls(Protocol):
    """The record of a session that is repeated: the results of its calls stand for calls."""

    def instead(self, judged: Judged) -> ToolOutcome | None:
        """Return the result to give instead of making a call; None makes it."""
        ...

    def compared(self, outcome: ToolOutcome) -> ToolOutcome:
        """Return the outcome with the recorded result, if the call came to the same."""
        ...
