"""Protocols of the parts of a session that the gate calls and that are built above it."""

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
    """The user's hooks on the calls of a worker, which can make a verdict stricter."""

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
        """Return the answer of ``ask``, or the decision of a hook that denies it.

        Hooks match any of ``names``.
        """
        ...

    async def session_starts(self) -> None:
        """Report the start of a session, which a hook may refuse."""
        ...

    async def session_ends(self) -> None:
        """Report the end of a session."""
        ...

    def facts(self) -> list[JsonObject]:
        """Describe every active hook."""
        ...

    def facts_before(self, judged: Judged) -> list[JsonObject]:
        """Describe the hooks that a call would pass."""
        ...


class RecordedCalls(Protocol):
    """The calls of a recorded session that is replayed."""

    def instead(self, judged: Judged) -> ToolOutcome | None:
        """Return the recorded outcome if it replaces the call, or None to make the call."""
        ...

    def compared(self, outcome: ToolOutcome) -> ToolOutcome:
        """Return the outcome, or the recorded one if the results are the same."""
        ...
