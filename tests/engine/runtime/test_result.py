"""The end of a task: the result for programs, the printed text, and the text for a parent worker."""

from typing import Any

import pytest

from forge_cli import ToolError, WorkerResult
from forge_cli.core.calls import ToolCall, ToolOutcome
from forge_cli.core.errors import ExitCode, ForgeError, UsageError
from forge_cli.core.interrupt import TERMINATED, Ended, Interrupted, Parked
from forge_cli.engine.gate.steps import Refusal
from forge_cli.engine.runtime.children import answer_or_raise
from forge_cli.engine.runtime.result import Ending
from forge_cli.engine.turns.limits import LimitReached
from forge_cli.engine.turns.loop import CallFailed, InvalidOutput, Stopped


@pytest.mark.parametrize(
    ("status", "success"),
    [
        ("completed", True),
        ("interrupted", True),
        ("failed", False),
        ("denied", False),
        ("limit", False),
    ],
)
def test_only_completed_results_are_a_success(status: Any, success: bool) -> None:
    result = WorkerResult(
        status=status,
        exit_code=ExitCode.DONE,
        text="",
        session_id="",
        worker="",
        model="",
        error="why",
    )
    assert result.success is success
    assert result.wire()["error"] == "why"


@pytest.mark.parametrize(
    ("cause", "ending"),
    [
        (Interrupted(), Ending("so far", "interrupted", ExitCode.INTERRUPTED)),
        (Interrupted(TERMINATED), Ending("so far", "interrupted", ExitCode.TERMINATED)),
        (LimitReached("too long"), Ending("so far", "limit", ExitCode.LIMIT, "too long")),
        (Stopped("refused"), Ending("so far", "denied", ExitCode.DENIED, "refused")),
        (InvalidOutput("misfit"), Ending("so far", "invalid_output", ExitCode.MISFIT, "misfit")),
        (
            CallFailed(ToolOutcome.failed(ToolCall("c1", "push", {}), "error", "it broke")),
            Ending(
                "so far",
                "failed",
                ExitCode.FAILED,
                "push failed (error), and on_error is 'stop': it broke",
            ),
        ),
        (Parked("it waits"), Ending("so far", "parked", ExitCode.PARKED, "it waits")),
        (UsageError("no"), Ending("so far", "failed", ExitCode.USAGE, "no")),
    ],
)
def test_result_status_and_exit_code_agree(cause: Ended | ForgeError, ending: Ending) -> None:
    assert Ending.early(cause, "so far") == ending


def result(status: Any, error: str | None = None) -> WorkerResult:
    return WorkerResult(
        status=status,
        exit_code=ExitCode.DONE,
        text="Hm.",
        session_id="s",
        worker="w",
        model="m",
        error=error,
    )


@pytest.mark.parametrize(
    ("status", "raised", "sentence"),
    [
        ("parked", Parked, "w: why"),
        ("denied", Refusal, "the worker 'w' was stopped: why"),
        ("limit", ToolError, "the worker 'w' ended with limit: why"),
    ],
)
def test_parent_reads_why_a_child_did_not_finish(
    status: str, raised: type[Exception], sentence: str
) -> None:
    assert answer_or_raise(result("completed")) == "Hm."
    with pytest.raises(raised) as caught:
        answer_or_raise(result(status, "why"))
    assert str(caught.value) == sentence
