"""Child processes as toolsets start them: confined as the worker says, clean, bounded, ended with all they started."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol, Self, TypedDict, Unpack

from msgspec import Struct

from forge_cli.core.text import cut, visible

OWN_SOCKET = " of its own"
"""The end of what is told of a socket that a command wanted to listen at."""
LISTED = 1000
"""Characters of a list of what a command did, or did in vain."""

OutputName = Literal["stdout", "stderr"]


class Finished(Struct, frozen=True):
    """How a command ended: by itself, by a signal, or because its time was up.

    Of a confined command that dies of signal N nothing comes through but 128 + N, so that is taken for the signal, as
    shells do. One that could not even be killed has neither code nor signal.
    """

    exit_code: int | None
    signal: int | None
    stdout: str
    stderr: str
    timed_out: bool
    truncated: bool
    """True if the middle of an output that was too long is missing; the text says so where it is."""
    duration_ms: int
    confined: bool = False
    denies: bool = False
    """True if what it may not touch is there, and refused, instead of hidden; only of a confined command."""
    exceeded: str | None = None
    """The limit that it was stopped for, as a sentence."""
    appeared: tuple[str, ...] = ()
    """Protected names, such as ``.git`` and ``.env``, that were not there before, and what they were renamed to; only
    of a confined command."""
    refused: tuple[str, ...] = ()
    """Hosts with ports that it was not allowed to reach, each with the reason; only with a list ``sandbox.network``."""
    sockets: tuple[str, ...] = ()
    """Unix sockets that it was not allowed to use; only of a confined command, as far as the kernel shows them."""

    def refusals(self) -> str:
        """A line for the model about connections that were refused; empty where none was."""
        return (
            f"\nconnections refused: {visible(cut(', '.join(self.refused), LISTED))}"
            if self.refused
            else ""
        )

    def refused_sockets(self) -> str | None:
        """A part of a sentence about unix sockets that were refused, also where the command said nothing of it."""
        if not self.sockets:
            return None
        names = visible(cut(", ".join(self.sockets), LISTED))
        if any(name.startswith("/") and not name.endswith(OWN_SOCKET) for name in self.sockets):
            return f"refused the unix socket {names}; commands may use one that sandbox.read names"
        return f"refused the unix socket {names}; no confined command may use it"

    def hint(self, output: str) -> str | None:
        """A likely cause of a failure, where the output suggests one."""
        if self.signal == signal.SIGXFSZ or (self.exit_code != 0 and _says(output, errno.EFBIG)):
            return "a file in it grew past the limit (sandbox.limits.file_size)"
        if not self.confined or self.exit_code == 0:
            return None
        if _says(output, errno.EROFS):
            return "it is confined: it can write to writable zones only, and not to .git, .env* and the like in them"
        if self.denies and _says(output, errno.EACCES):
            return "it is confined: it writes to writable zones and $TMPDIR only, and does not read all of the home"
        home = os.path.join(os.path.expanduser("~"), "")
        missing = [line for line in output.splitlines() if _says(line, errno.ENOENT)]
        if any(home in line for line in missing):
            return "it is confined: of the home it sees zones, toolchains on PATH and what sandbox.read names"
        if any("/tmp/" in line for line in missing):  # noqa: S108
            return "it is confined: its /tmp is its own, and holds what commands of this session wrote there"
        return None


def _says(output: str, number: int) -> bool:
    """Return True if a program names this error; those in Go write it in small letters."""
    text = os.strerror(number)
    return text in output or text.lower() in output


class Piece(Struct, frozen=True):
    """A part of the output of a command, as soon as it is written."""

    stream: OutputName
    text: str


class ProcessStream(Protocol):
    """The output of one command while it runs: ``async for`` gives each ``Piece``, and ``finished`` is set at the end.

    Leaving ``async with`` earlier stops the command with everything it started.
    """

    @property
    def finished(self) -> Finished | None:
        """The result that ``run`` would have returned; None while the command runs."""
        ...

    def __aiter__(self) -> Self: ...
    async def __anext__(self) -> Piece: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class CommandOptions(TypedDict, total=False):
    """How a command is started, besides its argv."""

    cwd: str | Path | None
    """The working directory unless given."""
    env: Mapping[str, str] | None
    """Added to a clean environment."""
    input: str | bytes | None
    """All that it reads."""
    timeout: float | None
    readable: Iterable[Path]
    """Paths that a confined command reads although they would be hidden."""
    writable: Iterable[Path]
    """Protected folders, such as ``.git``, that a confined command writes to where they lie in writable zones; never to
    hooks and settings in them."""
    errors: str
    """How its output is decoded as UTF-8, as ``bytes.decode`` has it; ``replace`` unless given."""


class Processes(Protocol):
    """The child processes of one worker (``env.processes``).

    A command is an argv, never a line for a shell. It runs confined where the worker's commands do, without the keys of
    model providers, and what it starts ends with it: when its time is up, when the call is interrupted, and at the
    latest when the worker ends.
    """

    @property
    def confined(self) -> bool:
        """Return True if commands are confined."""
        ...

    def check(self) -> None:
        """Raise at load what the first command would be refused for: isolation that is required and missing."""
        ...

    async def run(self, argv: Sequence[str], **options: Unpack[CommandOptions]) -> Finished:
        """Run a command to its end; failure and time-out are part of the result, not raised.

        Only what cannot be started at all is a ToolError. Of each stream of its output 1 MiB is kept, the first and the
        last half.
        """
        ...

    def stream(self, argv: Sequence[str], **options: Unpack[CommandOptions]) -> ProcessStream:
        """The same as ``run``, piece by piece while it runs."""
        ...
