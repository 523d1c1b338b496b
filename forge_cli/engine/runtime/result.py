"""How a task ended: the result that programs get, ``--output-format json`` prints and a calling worker reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from forge_cli.core.errors import ExitCode, ForgeError, ToolError
from forge_cli.core.messages import Usage
from forge_cli.core.tool import ToolOutcome
from forge_cli.engine.gate.controller import Parked
from forge_cli.engine.gate.judge import Refusal

ResultStatus = Literal["completed", "failed", "denied", "limit", "invalid_output", "interrupted", "parked"]
BELOW = "below"
"""A call was stopped by what happened to the worker that it called."""


@dataclass(frozen=True, kw_only=True)
class WorkerResult:
    """How a task ended. An interrupted one is no failure: ``success`` is True and the response says so."""

    status: ResultStatus
    exit_code: ExitCode
    response: str
    session_id: str
    worker: str
    model: str
    turns: int = 0
    tool_calls: int = 0
    denials: tuple[Mapping[str, Any], ...] = ()
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    output: Any = None
    duration_ms: int = 0
    error: str | None = None

    @classmethod
    def not_begun(cls, error: ForgeError, *, session_id: str, worker: str, model: str = "") -> WorkerResult:
        """A worker that could not even start has failed."""
        return cls(
            status="failed",
            exit_code=error.exit_code,
            response="",
            session_id=session_id,
            worker=worker,
            model=model,
            error=str(error),
        )

    @property
    def success(self) -> bool:
        return self.status in ("completed", "interrupted")

    def wire(self) -> dict[str, Any]:
        """The object that ``--output-format json`` prints; ``error`` is there only when there was one."""
        found = {
            "status": self.status,
            "exit_code": int(self.exit_code),
            "response": self.response,
            "output": self.output,
            "session_id": self.session_id,
            "worker": self.worker,
            "model": self.model,
            "turns": self.turns,
            "tool_calls": self.tool_calls,
            "denials": [dict(denial) for denial in self.denials],
            "usage": asdict(self.usage),
            "cost": self.cost,
            "duration_ms": self.duration_ms,
        }
        return found if self.error is None else {**found, "error": self.error}


def answer_of(result: WorkerResult) -> str:
    """What the caller reads; what stops the caller as well goes on up."""
    match result.status:
        case "completed":
            return result.response
        case "parked":
            raise Parked(f"{result.worker}: {result.error}")
        case "denied":
            raise Refusal("denied", f"the worker '{result.worker}' was stopped: {result.error}", by=BELOW)
        case status:
            raise ToolError(f"the worker '{result.worker}' ended with {status}: {result.error or result.response}")


def denials_of(outcomes: Sequence[ToolOutcome]) -> Iterator[dict[str, Any]]:
    """The calls that were refused; one that only passes on the refusal of another is that of the other."""
    refused = (outcome for outcome in outcomes if outcome.status in ("denied", "blocked"))
    return (_denial(outcome) for outcome in refused if outcome.by != BELOW)


def _denial(outcome: ToolOutcome) -> dict[str, Any]:
    return {
        "tool": outcome.call.name,
        "input": outcome.call.input,
        "reason": outcome.error or "",
        "by": outcome.by or "rule",
    }
