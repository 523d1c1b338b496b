"""Protocols of the parts of a session that the gate calls and that are built above it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from forge_cli.core.wire import JsonObject

if TYPE_CHECKING:
    from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
    from forge_cli.core.calls import ToolOutcome
    from forge_cli.core.messages import Attachment
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


class WordJudge(Protocol):
    """The rule about effects that cannot be undone, after untrusted text was read."""

    def begin_task(self, task: str, attachments: Sequence[Attachment]) -> bool:
        """Take the person's task; return False if no person wrote it."""
        ...

    def begin_foreign_task(self) -> None:
        """Count the next task as nobody's words: a server wrote it."""
        ...

    def typed(self, text: str) -> None:
        """Take words that the person typed."""
        ...

    def judge(self, judged: Judged) -> Judged:
        """Return the call with the verdict that its words need."""
        ...

    def after_trial(self, judged: Judged, *, undoable: bool) -> Judged:
        """Return a call with the verdict after its trial, which shows if it can be undone."""
        ...

    def answered(self, judged: Judged, decision: ApprovalDecision) -> None:
        """Take the answer to a question about a call."""
        ...

    def is_approved(self, judged: Judged) -> bool:
        """Return True if the person allowed this exact call for the session, asked like this."""
        ...

    def count_question(self, judged: Judged) -> str | None:
        """Count a question; return why the task has to end instead of asking it."""
        ...

    @property
    def flood(self) -> str | None:
        """Why the task has to end; None if it may go on."""
        ...

    def took(self, judged: Judged, outcome: ToolOutcome, *, tried: bool) -> None:
        """Take the result of a call; ``tried`` if all of it ran without a network."""
        ...


class RecordedCalls(Protocol):
    """The calls of a recorded session that is replayed."""

    def instead(self, judged: Judged) -> ToolOutcome | None:
        """Return the recorded outcome if it replaces the call, or None to make the call."""
        ...

    def compared(self, outcome: ToolOutcome) -> ToolOutcome:
        """Return the outcome, or the recorded one if the results are the same."""
        ...
