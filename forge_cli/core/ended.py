"""Why a task ends before it is done: one base that carries the status and the exit code of its result."""

from __future__ import annotations

from typing import ClassVar, Literal

from forge_cli.core.errors import ExitCode
from forge_cli.core.interrupt import HUNG_UP, QUIT, TERMINATED
from forge_cli.core.phrases import INTERRUPTED_ANSWER

ResultStatus = Literal["completed", "failed", "denied", "limit", "invalid_output", "interrupted", "parked"]

_STOPS: dict[str | None, ExitCode] = {
    TERMINATED: ExitCode.TERMINATED,
    HUNG_UP: ExitCode.HUNG_UP,
    QUIT: ExitCode.QUIT,
}


class Ended(Exception):
    """The task ends here, in good order; the sentence is the error of its result."""

    status: ClassVar[ResultStatus]
    exit_code: ExitCode
    answer: str | None = None
    """The response of the result; None for the model's last text."""


class Parked(Ended):
    """A request waits on disk for somebody to decide it; the work ends here until then."""

    status = "parked"
    exit_code = ExitCode.PARKED


class Interrupted(Ended):
    """Somebody stopped the work, which is not an error."""

    status = "interrupted"
    exit_code = ExitCode.INTERRUPTED
    answer = INTERRUPTED_ANSWER

    def __init__(self, reason: str | None = None) -> None:
        super().__init__()
        self.exit_code = _STOPS.get(reason, ExitCode.INTERRUPTED)
