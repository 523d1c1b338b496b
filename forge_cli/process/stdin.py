"""Standard input: the task that is read from it, and whether a person can answer questions."""

from __future__ import annotations

import os
import select
import stat
import sys
from functools import cache
from typing import TextIO

from forge_cli.core.errors import UsageError

FIRST_BYTE_TIMEOUT = 3.0
"""Seconds to wait for the first byte of a pipe; ``-`` waits without a limit."""
_TERMINAL = "/dev/tty"
STALL_TIMEOUT = 60.0
"""Seconds without data after which a pipe counts as stuck; ``-`` waits without a limit."""
MAX_TASK_BYTES = 16 * 1024 * 1024
"""The largest task; forge stops reading endless input here."""
READ_SIZE = 1 << 16
"""Bytes to read at once."""


def is_interactive() -> bool:
    """Return True if a person can answer questions.

    Standard input and error have to be terminals, and ``CI`` must not be set.
    """
    return not os.environ.get("CI") and sys.stdin.isatty() and sys.stderr.isatty()


@cache
def open_terminal() -> TextIO | None:
    """Open the controlling terminal for questions if standard input is a pipe or a file.

    Return None in CI, if standard error is no terminal, or if another program is in the foreground.
    """
    kind = _kind()
    if (
        kind is None
        or not (_is_pipe(kind) or stat.S_ISREG(kind))
        or os.environ.get("CI")
        or not sys.stderr.isatty()
    ):
        return None
    try:
        descriptor = os.open(_TERMINAL, os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # the system stops a background process that reads from the terminal
        if os.tcgetpgrp(descriptor) == os.getpgrp():
            return open(descriptor)
    except OSError:
        pass
    os.close(descriptor)
    return None


def task_from(argument: str | None, *, optional: bool = False) -> str:
    """Return the task from the argument and standard input.

    ``-`` reads the whole task from standard input; piped input is appended to another argument as a
    block. If the task is ``optional``, standard input alone makes none.
    """
    if optional and argument is None:
        return ""
    if argument == "-":
        task = _read_all(timeout=None)
    elif argument is None:
        if sys.stdin.isatty() or not _speaks():
            hint = 'say what to do: forge run WORKER "TASK", or - to wait for it on standard input'
            raise UsageError("no task was given", hint=hint)
        task = _read_all(STALL_TIMEOUT)
    else:
        task = argument
        block = _piped() if argument.strip() else ""
        if block.strip():
            block = block.removesuffix("\n")
            task += f"\n\n<stdin>\n{block}\n</stdin>"
    if not task.strip():
        raise UsageError("the task is empty", hint='say what to do: forge run WORKER "TASK"')
    return task


def _piped() -> str:
    """Return the piped text; give up after a moment if nothing arrives."""
    kind = _kind()
    if kind is None or sys.stdin.isatty() or not (_is_pipe(kind) or stat.S_ISREG(kind)):
        return ""
    if _speaks():
        return _read_all(STALL_TIMEOUT)
    sys.stderr.write(
        "forge: no data on standard input; continuing without it"
        " (</dev/null skips the wait, - waits for the task)\n"
    )
    return ""


def _speaks() -> bool:
    """Return True if data or the end of input arrives within ``FIRST_BYTE_TIMEOUT``."""
    kind = _kind()
    if kind is None or not _is_pipe(kind):
        return True
    return bool(select.select([sys.stdin], [], [], FIRST_BYTE_TIMEOUT)[0])


def _read_all(timeout: float | None) -> str:
    """Read to the end; raise UsageError if nothing arrives for ``timeout`` seconds."""
    kind = _kind()
    found = bytearray()
    waits = timeout is not None and kind is not None and _is_pipe(kind)
    while len(found) <= MAX_TASK_BYTES:
        if waits and not select.select([sys.stdin], [], [], timeout)[0]:
            problem = f"standard input did not end: no data for {timeout:g} s"
            hint = "close it, or give - as the task to wait for its end"
            raise UsageError(problem, hint=hint)
        if kind is None:
            piece = sys.stdin.buffer.read(READ_SIZE)
        else:  # a read of the stream would wait until the buffer is full
            piece = os.read(sys.stdin.fileno(), READ_SIZE)
        if not piece:
            return found.decode(errors="replace")
        found += piece
    raise UsageError(
        f"standard input has more than {MAX_TASK_BYTES} bytes, the maximum for a task",
        hint="write it to a file that the worker can read, and name the file in the task",
    )


def _kind() -> int | None:
    """Return the file mode of standard input; None if it is closed or replaced by a program."""
    try:
        return os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return None


def _is_pipe(kind: int) -> bool:
    return stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)
