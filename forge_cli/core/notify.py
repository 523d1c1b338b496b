"""How plugins tell a person something while a worker runs: a level and a sentence; and what forge's own are about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from forge_cli.core.errors import StatusLevel

Notify = Callable[[StatusLevel, str], None]
About = Literal["confinement", "prompt", "retry", "void", "server", "undo", "commands", "written"]
"""The subject of a status: what confines commands, how far the model has read the prompt, that a request is sent again,
that a partial answer does not count, that an MCP server is not there, that a file will not be restored, which commands
are still running, and that a call was written as text."""

COMMANDS = "commands: "
"""How the line begins that says what confines child processes."""
UNCONFINED_RULES = "commands that rules pre-approve run unconfined: install bubblewrap (bwrap), or say 'isolation: off'"
"""Told even where warnings are not: no person is asked, and nothing holds back what runs."""


class RetryNotice(Struct, frozen=True):
    """A request failed and is sent again."""

    problem: str
    wait: float
    """Seconds."""
    attempt: int
    attempts: int

    def __str__(self) -> str:
        pause = ""
        if self.wait:
            precision = ".2g" if self.wait < 10 else ".0f"
            pause = f" in {self.wait:{precision}} s"
        return f"{self.problem}; trying again{pause} ({self.attempt} of {self.attempts})"


class RunningCommand(Struct, frozen=True):
    """A command that works on while the conversation continues."""

    number: int
    """That of its session, for ``write_stdin``."""
    command: str
    started: float
    """Seconds since 1970."""


class StatusNotice(str):
    """A sentence of forge itself that also says what it is about.

    ``Notify`` takes text, and plugins have nothing but text to give: so readers can trust the subject, and need not
    look at the words, which anybody may have chosen.
    """

    about: About
    retry: RetryNotice | None
    running: tuple[RunningCommand, ...] | None
    urgent: bool
    """True if it is told even where warnings are not."""

    def __new__(
        cls,
        text: str,
        about: About,
        *,
        retry: RetryNotice | None = None,
        running: tuple[RunningCommand, ...] | None = None,
        urgent: bool = False,
    ) -> StatusNotice:
        notice = super().__new__(cls, text)
        notice.about = about
        notice.retry = retry
        notice.running = running
        notice.urgent = urgent
        return notice

    @classmethod
    def of_retry(cls, retry: RetryNotice) -> StatusNotice:
        return cls(str(retry), "retry", retry=retry)
