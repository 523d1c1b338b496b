"""Errors: a ``ForgeError`` has a message for the user, a ``ToolError`` has one for the model."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal

StatusLevel = Literal["debug", "info", "warning", "error"]
"""The severity of a message to the person who watches a worker."""
PROBLEMS = 5
"""The most problems of an input that one message reports."""


class ExitCode(IntEnum):
    """Exit codes of commands, as documented in ``forge run --help``."""

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
    # From here on 128 plus the number of the signal, as shells report it.
    HUNG_UP = 129
    INTERRUPTED = 130
    QUIT = 131
    TERMINATED = 143


@dataclass(frozen=True)
class Mark:
    """A place in a file; line and column count from 1."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class ForgeError(Exception):
    """An error for the user: what happened, where, and what to do next."""

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
    """The command line is invalid."""

    exit_code = ExitCode.USAGE


class WorkerError(ForgeError):
    """A worker, or another file that people write, is missing or invalid."""

    exit_code = ExitCode.INVALID

    def __init__(self, where: Mark | None, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, where=where, hint=hint)


class LockError(WorkerError):
    """The worker does not match its lock file."""

    exit_code = ExitCode.UNTRUSTED


class ModelError(ForgeError):
    """The model could not be reached, or did not answer.

    ``too_long`` is True if the request exceeds the model's window, ``refused`` if the provider
    rejects the key or the model.
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
    """A function or schema is not usable as a tool's input; for the tool's author."""


class ToolError(Exception):
    """A tool failed; the message is for the model.

    ``value`` is an optional result that the failed call still returns, such as output of a command.
    """

    def __init__(self, *sentence: object, value: Any = None) -> None:
        super().__init__(*sentence)
        self.value = value


class InvalidInput(ToolError):
    """The args of a call do not match the tool's schema; the message names each invalid field."""

    def __init__(self, *problems: str) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        super().__init__("; ".join(self.problems[:PROBLEMS]))


class ToolTimeout(ToolError):
    """A tool stopped its work at its time limit; ``value`` is the result until then."""


class ToolInterrupted(ToolError):
    """A cancelled tool stopped its work; ``value`` is the result until then."""


class BlockedError(ToolError):
    """Policy forbids the call in every mode; for tools that find out while they run."""

    def __init__(self, tool: str, reason: str = "blocked by policy") -> None:
        super().__init__(f"{tool}: {reason}")
        self.tool = tool
        self.reason = reason


class Stale(ToolError):
    """The call would no longer affect what the prompt showed; the gate asks again."""


class NotAsJudged(Stale):
    """The call is not what its rules assumed, and its effects are discarded.

    The gate then asks, or blocks the call if ``blocked`` is True.
    """

    def __init__(self, reason: str, *, blocked: bool = False) -> None:
        super().__init__(reason)
        self.blocked = blocked


class Terminated(KeyboardInterrupt):
    """A signal arrived before the process can stop in order.

    It is not an Exception, so third-party code does not catch it by accident.
    """

    def __init__(self, exit_code: int = ExitCode.TERMINATED) -> None:
        super().__init__()
        self.exit_code = exit_code


class TooManySteps(Exception):
    """A schema needs too many steps, because its references and alternatives multiply."""

    def __init__(self) -> None:
        super().__init__("its references and alternatives have too many combinations")
