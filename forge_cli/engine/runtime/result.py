"""How a task ended: the result that programs get, ``--output-format json`` prints and a parent worker reads."""

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
"""The source of the refusal of a call that was stopped because the child worker that it called was."""


OutputT = TypeVar("OutputT", default=Any)
"""The ``output_type`` of a runtime; Any where none is given."""


class WorkerResult(Struct, Generic[OutputT], frozen=True, kw_only=True):
    """How a task ended. An interrupted one is not a failure: ``success`` is True and the response says so."""

    status: ResultStatus
    exit_code: ExitCode
    text: str
    """The words of the model in its last turn."""
    session_id: str
    worker: str
    model: str
    turns: int = 0
    tool_calls: int = 0
    denials: tuple[Mapping[str, Any], ...] = ()
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    output: OutputT = None  # type: ignore[assignment]  # it has a value where the task was completed
    """The value of the final answer where a schema or a type was wanted; None unless the task was completed."""
    duration_ms: int = 0
    error: str | None = None
    refused: bool = False
    """Whether the provider refused the key or the model, whatever the task."""

    @classmethod
    def not_begun(cls, error: ForgeError, *, session_id: str, worker: str) -> WorkerResult:
        """A worker that could not even start has failed."""
        ending = Ending("", "failed", error.exit_code, str(error))
        return cls.of(ending, session_id=session_id, worker=worker)

    @classmethod
    def of(cls, ending: Ending, *, session_id: str, worker: str, model: str = "") -> WorkerResult:
        """The result of a task before anything was done for it."""
        return cls(session_id=session_id, worker=worker, model=model, **asdict(ending))

    def with_work(
        self, tally: Tally, budget: Budget, children: Sequence[WorkerResult]
    ) -> WorkerResult:
        """Return the same after work, with the calls and denials of the child workers that took part in it."""
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
        """The answer for a program: the text, unless it was interrupted."""
        return INTERRUPTED_ANSWER if self.status == "interrupted" else self.text

    @property
    def success(self) -> bool:
        """Whether it finished, or was only interrupted."""
        return self.status in ("completed", "interrupted")

    def wire(self) -> dict[str, Any]:
        """The object that ``--output-format json`` prints; ``error`` is there only when there was one."""
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
        }
        return camel_keys(found if self.error is None else {**found, "error": self.error})


def _plain(output: Any) -> Any:
    """Return an output as JSON data, also where it is a value of an ``output_type``."""
    if output is None:
        return None
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(output, by_alias=True)


class Ending(Struct, frozen=True):
    """How one task came to its end."""

    text: str
    status: ResultStatus = "completed"
    exit_code: ExitCode = ExitCode.DONE
    error: str | None = None
    refused: bool = False

    @classmethod
    def early(cls, cause: Ended | ForgeError, last_text: str) -> Ending:
        """The end of a task that is not done; an Ended says itself what it means, any other error is a failure."""
        if isinstance(cause, ForgeError):
            refused = isinstance(cause, ModelError) and cause.refused
            return cls(last_text, "failed", cause.exit_code, str(cause), refused)
        return cls(last_text, cause.status, cause.exit_code, str(cause) or None)

    @classmethod
    def forced(cls, end: ForcedEnd, budget: Budget | None, last_text: str) -> Ending:
        """The end of a task that third-party code would not let end."""
        if not end.why:
            return cls(last_text, "failed", end.exit_code, end.fault)
        if end.why == OUT_OF_TIME:
            cause: Ended = (
                budget.out_of_time() if budget else LimitReached("the time limit was reached")
            )
        else:
            cause = Interrupted(end.why)
        ending = cls.early(cause, last_text)
        return replace(ending, error="; ".join(filter(None, (ending.error, end.fault))) or None)


def how_to_answer(sentence: str | None, session_id: str) -> str:
    """The next step of a task that is parked."""
    return f"parked: {sentence}\n  forge approvals list shows what waits; after the answers: -r {session_id}"


def denials_of(outcomes: Sequence[ToolOutcome]) -> Iterator[dict[str, Any]]:
    """The calls that were refused, and what others were denied while they ran.

    One that only passes on the refusal of another is that of the other.
    """
    for outcome in outcomes:
        if outcome.status in ("denied", "blocked") and outcome.by != BY_CHILD:
            yield _denial(outcome, outcome.refusal, outcome.by or "rule")
        yield from (_denial(outcome, denied.reason, denied.by) for denied in outcome.denials)


def _denial(outcome: ToolOutcome, reason: str, by: str) -> dict[str, Any]:
    return {"tool": outcome.call.name, "input": outcome.call.args, "reason": reason, "by": by}
