"""The result of a task, for programs, ``--output-format json`` and parent workers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic

from msgspec import Struct, field
from msgspec.structs import asdict, replace
from typing_extensions import TypeVar

from forge_cli.core.bounds import ForcedEnd
from forge_cli.core.calls import ToolOutcome
from forge_cli.core.errors import ExitCode, ForgeError, ModelError
from forge_cli.core.interrupt import Ended, Interrupted, ResultStatus
from forge_cli.core.messages import Usage
from forge_cli.core.phrases import INTERRUPTED_ANSWER
from forge_cli.core.wire import camel_keys
from forge_cli.engine.turns.limits import OUT_OF_TIME, Budget, LimitReached
from forge_cli.engine.turns.loop import Tally

BY_CHILD = "child"
"""The source of a refusal that a stopped child worker passes on to its call."""


OutputT = TypeVar("OutputT", default=Any)
"""The ``output_type`` of a runtime, by default Any."""


class WorkerResult(Struct, Generic[OutputT], frozen=True, kw_only=True):
    """The result of a task; an interrupted one is a success, and its response says so."""

    status: ResultStatus
    exit_code: ExitCode
    text: str
    """The text of the model in its last turn."""
    session_id: str
    worker: str
    model: str
    turns: int = 0
    tool_calls: int = 0
    denials: tuple[Mapping[str, Any], ...] = ()
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    output: OutputT = None  # type: ignore[assignment]  # completed tasks have a value
    """The value of the final answer if a schema or type was given; None unless completed."""
    duration_ms: int = 0
    error: str | None = None
    draft: Mapping[str, Any] | None = None
    """The draft that the session worked in, with its changes."""
    refused: bool = False
    """True if the provider refused the key or the model, whatever the task."""

    @classmethod
    def not_begun(cls, error: ForgeError, *, session_id: str, worker: str) -> WorkerResult:
        """Return the result of a worker that could not start."""
        ending = Ending("", "failed", error.exit_code, str(error))
        return cls.of(ending, session_id=session_id, worker=worker)

    @classmethod
    def of(cls, ending: Ending, *, session_id: str, worker: str, model: str = "") -> WorkerResult:
        """Return the result of a task before any work."""
        return cls(session_id=session_id, worker=worker, model=model, **asdict(ending))

    def with_work(
        self, tally: Tally, budget: Budget, children: Sequence[WorkerResult]
    ) -> WorkerResult:
        """Return the result with the work, including calls and denials of child workers."""
        denials: list[Mapping[str, Any]] = list(denials_of(tally.outcomes))
        for child in children:
            denials += child.denials
        return replace(
            self,
            turns=tally.turns,
            tool_calls=tally.calls + sum(child.tool_calls for child in children),
            denials=tuple(denials),
            usage=budget.usage,
            cost=budget.cost,
            output=tally.output,
            duration_ms=round((time.monotonic() - tally.started) * 1000),
        )

    @property
    def response(self) -> str:
        """The answer for a program: the text, unless the task was interrupted."""
        if self.status == "interrupted":
            return INTERRUPTED_ANSWER
        return self.text

    @property
    def success(self) -> bool:
        """True if the task was completed or interrupted."""
        return self.status in ("completed", "interrupted")

    def wire(self) -> dict[str, Any]:
        """Return the object that ``--output-format json`` prints; ``error`` is optional."""
        found = {
            "status": self.status,
            "exit_code": int(self.exit_code),
            "response": self.response,
            "output": _plain(self.output),
            "session_id": self.session_id,
            "worker": self.worker,
            "model": self.model,
            "turns": self.turns,
            "tool_calls": self.tool_calls,
            "denials": [dict(denial) for denial in self.denials],
            "usage": camel_keys(asdict(self.usage)),
            "cost": self.cost,
            "duration_ms": self.duration_ms,
            "draft": self.draft,
        }
        if self.error is not None:
            found["error"] = self.error
        return camel_keys(found)


def _plain(output: Any) -> Any:
    """Return an output as JSON data, also if it is a value of an ``output_type``."""
    if output is None:
        return None
    from pydantic_core import to_jsonable_python  # most tasks have no output

    return to_jsonable_python(output, by_alias=True)


class Ending(Struct, frozen=True):
    """The end of one task."""

    text: str
    status: ResultStatus = "completed"
    exit_code: ExitCode = ExitCode.DONE
    error: str | None = None
    refused: bool = False

    @classmethod
    def early(cls, cause: Ended | ForgeError, last_text: str) -> Ending:
        """Return the end of an unfinished task; any error but ``Ended`` is a failure."""
        if isinstance(cause, ForgeError):
            refused = isinstance(cause, ModelError) and cause.refused
            return cls(last_text, "failed", cause.exit_code, str(cause), refused)
        return cls(last_text, cause.status, cause.exit_code, str(cause) or None)

    @classmethod
    def forced(cls, end: ForcedEnd, budget: Budget | None, last_text: str) -> Ending:
        """Return the end of a task that third-party code blocks."""
        if not end.why:
            return cls(last_text, "failed", end.exit_code, end.fault)
        cause: Ended
        if end.why != OUT_OF_TIME:
            cause = Interrupted(end.why)
        elif budget:
            cause = budget.out_of_time()
        else:
            cause = LimitReached("the time limit was reached")
        ending = cls.early(cause, last_text)
        return replace(ending, error="; ".join(filter(None, (ending.error, end.fault))) or None)


def how_to_answer(sentence: str | None, session_id: str) -> str:
    """Return the message of a parked task, with the next step."""
    show = "forge approvals list shows the pending requests"
    return f"parked: {sentence}\n  {show}; after the answers: -r {session_id}"


def denials_of(outcomes: Sequence[ToolOutcome]) -> Iterator[dict[str, Any]]:
    """Yield the refused calls, and requests that were denied while other calls ran.

    A call that only passes on the refusal of another one is left out.
    """
    for outcome in outcomes:
        if outcome.status in ("denied", "blocked") and outcome.by != BY_CHILD:
            yield _denial(outcome, outcome.refusal, outcome.by or "rule")
        yield from (_denial(outcome, denied.reason, denied.by) for denied in outcome.denials)


def _denial(outcome: ToolOutcome, reason: str, by: str) -> dict[str, Any]:
    return {"tool": outcome.call.name, "input": outcome.call.args, "reason": reason, "by": by}
