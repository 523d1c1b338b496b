"""How plugins tell a person something while a worker runs: a level and a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Self

from msgspec import Struct

from forge_cli.core.errors import StatusLevel

Notify = Callable[[StatusLevel, str], None]

COMMANDS = "commands: "
"""How the line begins that says what confines child processes."""
UNCONFINED_RULES = "commands that rules pre-approve run unconfined: install bubblewrap (bwrap), or say 'isolation: off'"
"""Told even where warnings are not: no person is asked, and nothing holds back what runs."""
NOT_THERE = " is not there: "
READING = "the model reads the prompt: "
"""How the line begins that says how far a slow model is, which is shown in place."""
_RETRY = re.compile(r"(.*); trying again(?: in ([\d.]+) s)? \((\d+) of (\d+)\)", re.DOTALL)


class RetryNotice(Struct, frozen=True):
    """A notice before something is tried again."""

    problem: str
    wait: float
    """Seconds."""
    attempt: int
    attempts: int

    def __str__(self) -> str:
        pause = f" in {self.wait:{'.2g' if self.wait < 10 else '.0f'}} s" if self.wait else ""
        return f"{self.problem}; trying again{pause} ({self.attempt} of {self.attempts})"

    @classmethod
    def read(cls, message: str) -> Self | None:
        """The notice that a message is."""
        found = _RETRY.fullmatch(message)
        return found and cls(found[1], float(found[2] or 0), int(found[3]), int(found[4]))


def is_always_told(warning: str) -> bool:
    """Whether a warning is told even where warnings are not: also that the worker does without a server."""
    return warning == UNCONFINED_RULES or (warning.startswith("the MCP server ") and NOT_THERE in warning)
