"""The interface of child processes for toolsets."""

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
"""The end of the text about a socket that a command tried to listen on."""
LISTED = 1000
"""The most characters of a list of refused hosts or sockets."""

OutputName = Literal["stdout", "stderr"]


class Finished(Struct, frozen=True):
    """The result of a command.

    If a confined command dies of signal N, only the code 128 + N is known, so that code is taken
    for the signal, as shells do. A command that could not be killed has neither code nor signal.
    """

    exit_code: int | None
    signal: int | None
    stdout: str
    stderr: str
    timed_out: bool
    truncated: bool
    """True if the middle of a long output is missing; the text marks the place."""
    duration_ms: int
    confined: bool = False
    denies: bool = False
    """True if forbidden files exist but are refused, not hidden; for confined commands only."""
    exceeded: str | None = None
    """The limit that stopped the command, as a sentence."""
    appeared: tuple[str, ...] = ()
    """Protected names that appeared, such as ``.git`` or ``.env``, with their new names.

    For confined commands only.
    """
    refused: tuple[str, ...] = ()
    """Refused hosts with ports and reasons, if ``sandbox.network`` is a list of hosts."""
    sockets: tuple[str, ...] = ()
    """Refused unix sockets of a confined command, as far as the kernel reports them."""

    def refusals(self) -> str:
        """Return a line for the model about refused connections; empty without any."""
        if not self.refused:
            return ""
        return f"\nconnections refused: {visible(cut(', '.join(self.refused), LISTED))}"

    def refused_sockets(self) -> str | None:
        """Return a phrase about refused unix sockets, which the command may not have reported."""
        if not self.sockets:
            return None
        names = visible(cut(", ".join(self.sockets), LISTED))
        if any(name.startswith("/") and not name.endswith(OWN_SOCKET) for name in self.sockets):
            return f"refused the unix socket {names}; commands may use one that sandbox.read names"
        return f"refused the unix socket {names}; no confined command may use it"

    def hint(self, output: str) -> str | None:
        """Return a likely cause of a failure, if the output suggests one."""
        if self.signal == signal.SIGXFSZ or (self.exit_code != 0 and _says(output, errno.EFBIG)):
            return "a file in it grew past the limit (sandbox.limits.file_size)"
        if not self.confined or self.exit_code == 0:
            return None
        if _says(output, errno.EROFS):
            return (
                "it is confined: it can write to writable zones only, "
                "and not to .git, .env* and the like in them"
            )
        if self.denies and _says(output, errno.EACCES):
            return (
                "it is confined: it writes to writable zones and $TMPDIR only, "
                "and does not read all of the home"
            )
        # With a slash at its end, so that /home/anna does not match /home/annabel.
        home = os.path.join(os.path.expanduser("~"), "")
        missing = [line for line in output.splitlines() if _says(line, errno.ENOENT)]
        if any(home in line for line in missing):
            return (
                "it is confined: of the home it sees zones, toolchains on PATH "
                "and what sandbox.read names"
            )
        if any("/tmp/" in line for line in missing):  # noqa: S108
            return (
                "it is confined: its /tmp is private "
                "and contains only what commands of this session wrote there"
            )
        return None


def _says(output: str, number: int) -> bool:
    """Return True if an output names this error; programs in Go write it in lower case."""
    text = os.strerror(number)
    return text in output or text.lower() in output


class Piece(Struct, frozen=True):
    """A piece of a command's output, available as soon as it is written."""

    stream: OutputName
    text: str


class ProcessStream(Protocol):
    """The output of a running command: ``async for`` yields each ``Piece``.

    Leaving ``async with`` early stops the command with everything it started.
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
    """Options to start a command, besides its argv."""

    cwd: str | Path | None
    """Default: the working directory of the session."""
    env: Mapping[str, str] | None
    """Variables to add to a clean environment."""
    input: str | bytes | None
    """The whole standard input."""
    timeout: float | None
    readable: Iterable[Path]
    """Paths that would otherwise be hidden from a confined command."""
    writable: Iterable[Path]
    """Protected folders in writable zones, such as ``.git``, that a confined command may change.

    Hooks and settings in them stay read-only.
    """
    errors: str
    """The error handler that decodes the output as UTF-8, as in ``bytes.decode``; ``replace``."""


class Processes(Protocol):
    """Child processes of one worker (``env.processes``).

    A command is an argv, never a line for a shell. It is confined if the worker's commands are, and
    has no keys of model providers. Everything that it starts ends with it: at its time limit, when
    the call is interrupted, and at the latest when the worker ends.
    """

    @property
    def confined(self) -> bool:
        """True if commands are confined."""
        ...

    def check(self) -> None:
        """Raise an error now if required isolation is missing, as the first command would."""
        ...

    async def run(self, argv: Sequence[str], **options: Unpack[CommandOptions]) -> Finished:
        """Run a command to its end; failures and timeouts are part of the result.

        Raise ToolError only if the command cannot be started. At most 1 MiB of each output stream
        is kept, half from its start and half from its end.
        """
        ...

    def stream(self, argv: Sequence[str], **options: Unpack[CommandOptions]) -> ProcessStream:
        """Run a command like ``run``, with its output available piece by piece."""
        ...
