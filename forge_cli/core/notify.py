"""Messages from plugins to the user, and the subjects of forge's own messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from forge_cli.core.errors import StatusLevel

Notify = Callable[[StatusLevel, str], None]
About = Literal["confinement", "prompt", "retry", "void", "server", "undo", "commands", "written"]
"""The subject of a status message.

- ``confinement``: how commands are confined
- ``prompt``: how much of the prompt the model has read
- ``retry``: a request is sent again
- ``void``: a partial answer does not count
- ``server``: an MCP server is not available
- ``undo``: a file cannot be restored later
- ``commands``: the commands that are still running
- ``written``: the model wrote a call as text
"""

COMMANDS = "commands: "
"""The start of the line about the confinement of child processes."""
UNCONFINED_RULES = (
    "commands that rules pre-approve run unconfined: "
    "install bubblewrap (bwrap), or say 'isolation: off'"
)
"""Shown even if warnings are not: these commands run without a question and unconfined."""


class RetryNotice(Struct, frozen=True):
    """A failed request that is sent again."""

    problem: str
    wait: float
    """Delay in seconds."""
    attempt: int
    attempts: int

    def __str__(self) -> str:
        pause = ""
        if self.wait:
            precision = ".2g" if self.wait < 10 else ".0f"
            pause = f" in {self.wait:{precision}} s"
        return f"{self.problem}; trying again{pause} ({self.attempt} of {self.attempts})"


class RunningCommand(Struct, frozen=True):
    """A command that keeps running while the conversation continues."""

    number: int
    """Its session number, for ``write_stdin``."""
    command: str
    started: float
    """Seconds since 1970."""


class StatusNotice(str):
    """A message of forge itself with a subject.

    ``Notify`` takes plain text, so plugins cannot set a subject. Readers can therefore trust it,
    and need not match words, which any plugin could write.
    """

    about: About
    retry: RetryNotice | None
    running: tuple[RunningCommand, ...] | None
    urgent: bool
    """True for messages that are shown even if warnings are not."""

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
