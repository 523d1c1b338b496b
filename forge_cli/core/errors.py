"""Errors have two readers: ForgeError is a sentence for the user, ToolError a sentence for the model."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal

StatusLevel = Literal["debug", "info", "warning", "error"]
"""Of what a person is told while a worker runs."""
PROBLEMS = 5
"""How many problems of an input are told at once."""


class ExitCode(IntEnum):
    """How a command ends; the numbers are documented in ``forge run --help``."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    INVALID = 3
    DENIED = 4
    LIMIT = 5
    MISFIT = 6
    PROVIDER = 7
    UNTRUSTED = 8
    DRIFT = 9
    PARKED = 10
    HUNG_UP = 129
    INTERRUPTED = 130
    QUIT = 131
    TERMINATED = 143


@dataclass(frozen=True)
class Mark:
    """A place in a file that somebody wrote; line and column count from 1."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class ForgeError(Exception):
    """Something the user has to know: what, where, and what to do next."""

    exit_code: ExitCode = ExitCode.FAILED

    def __init__(self, message: str, *, where: Mark | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        hint = f"\n  {self.hint}" if self.hint else ""
        return f"{place}{self.message}{hint}"


class UsageError(ForgeError):
    """The command line cannot be understood."""

    exit_code = ExitCode.USAGE


class WorkerError(ForgeError):
    """A worker, or another file that people write, is missing or wrong."""

    exit_code = ExitCode.INVALID

    def __init__(self, where: Mark | None, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, where=where, hint=hint)


class LockError(WorkerError):
    """The worker does not match its lock file."""

    exit_code = ExitCode.UNTRUSTED


class ModelError(ForgeError):
    """The model could not be reached or would not answer.

    ``too_long`` says that it was told more than it can hold, ``refused`` that the key or the model is refused.
    """

    exit_code = ExitCode.PROVIDER

    def __init__(
        self,
        message: str,
        *,
        where: Mark | None = None,
        hint: str | None = None,
        too_long: bool = False,
        refused: bool = False,
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.too_long = too_long
        self.refused = refused


class SchemaError(Exception):
    """A function or a schema cannot become a tool's input; a sentence for its author, with the remedy."""


class ToolError(Exception):
    """A tool could not do what it was asked; the sentence is for the model.

    ``value`` is a result that the failed call carries all the same, such as the output of a command.
    """

    def __init__(self, *sentence: object, value: Any = None) -> None:
        super().__init__(*sentence)
        self.value = value


class InvalidInput(ToolError):
    """The args of a call do not fit the tool's schema; one sentence for the model that names each wrong field."""

    def __init__(self, *problems: str) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        super().__init__("; ".join(self.problems[:PROBLEMS]))


class ToolTimeout(ToolError):
    """A tool stopped what it had started when its time was over; ``value`` has the result until then."""


class ToolInterrupted(ToolError):
    """A tool was cancelled and stopped what it had started; ``value`` has the result until then."""


class BlockedError(ToolError):
    """Policy forbids the call in every mode; raised by tools that find out while they run."""

    def __init__(self, tool: str, reason: str = "blocked by policy") -> None:
        super().__init__(f"{tool}: {reason}")
        self.tool = tool
        self.reason = reason


class Stale(ToolError):
    """The call would no longer touch what was shown at the prompt: the gate asks again."""


class NotAsJudged(Stale):
    """The call was not what its rules took it for, and nothing of it counts: it asks, or is ``blocked``."""

    def __init__(self, reason: str, *, blocked: bool = False) -> None:
        super().__init__(reason)
        self.blocked = blocked


class Terminated(KeyboardInterrupt):
    """A signal where nothing can be stopped in good order yet; third-party code does not catch it as an Exception."""

    def __init__(self, exit_code: int = ExitCode.TERMINATED) -> None:
        super().__init__()
        self.exit_code = exit_code


class TooManySteps(Exception):
    """A schema whose references and alternatives multiply takes more steps than any that people write."""

    def __init__(self) -> None:
        super().__init__("its references and alternatives multiply")
