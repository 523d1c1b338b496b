"""Standard input: the task that it brings, and whether a person is at it who can be asked."""

from __future__ import annotations

import os
import select
import stat
import sys
from functools import cache
from typing import TextIO

from forge_cli.core.errors import UsageError

PATIENCE = 3.0
"""Seconds to wait for the first byte of a pipe that may never speak, unless ``-`` says that it will."""
_TERMINAL = "/dev/tty"
STALL = 60.0
"""Seconds without a byte after which a pipe that has spoken counts as stuck, unless ``-`` was given."""
LARGEST = 16 * 1024 * 1024
"""Bytes that a task may have; what is endless is given up there."""


def is_interactive() -> bool:
    """Can a person be asked? Standard output may be piped; input and error must be terminals, and CI never is one."""
    return not os.environ.get("CI") and sys.stdin.isatty() and sys.stderr.isatty()


@cache
def open_terminal() -> TextIO | None:
    """Open the terminal of a person whose standard input is a pipe or a file, so that they can be asked there.

    There is none in CI, without a terminal to show the question, or where another program has it in the foreground.
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
        if os.tcgetpgrp(descriptor) == os.getpgrp():
            return open(descriptor)
    except OSError:
        pass
    os.close(descriptor)
    return None


def task_from(argument: str | None, *, optional: bool = False) -> str:
    """``-`` is the input itself; a task beside piped input gets the input as a block after it.

    Where the task is ``optional`` nothing but an argument makes one.
    """
    if optional and argument is None:
        return ""
    if argument == "-":
        task = _read_all(stall=None)
    elif argument is None:
        if sys.stdin.isatty() or not _speaks():
            hint = 'say what to do: forge run WORKER "TASK", or - to wait for it on standard input'
            raise UsageError("no task was given", hint=hint)
        task = _read_all(STALL)
    else:
        block = _piped() if argument.strip() else ""
        task = (
            f"{argument}\n\n<stdin>\n{block.removesuffix(chr(10))}\n</stdin>"
            if block.strip()
            else argument
        )
    if not task.strip():
        raise UsageError("the task is empty", hint='say what to do: forge run WORKER "TASK"')
    return task


def _piped() -> str:
    """The text that was piped in; an input that is not a terminal but never speaks is given up after a moment."""
    kind = _kind()
    if kind is None or sys.stdin.isatty() or not (_is_pipe(kind) or stat.S_ISREG(kind)):
        return ""
    if _speaks():
        return _read_all(STALL)
    sys.stderr.write(
        "forge: nothing came from standard input, continuing without it (</dev/null skips it, - waits for it)\n"
    )
    return ""


def _speaks() -> bool:
    """Whether there is something to read, or an end of it, without waiting for long."""
    kind = _kind()
    return (
        kind is None or not _is_pipe(kind) or bool(select.select([sys.stdin], [], [], PATIENCE)[0])
    )


def _read_all(stall: float | None) -> str:
    """Read to the end, unless there is none, or nothing comes for ``stall`` seconds."""
    kind = _kind()
    found = bytearray()
    waits = stall is not None and kind is not None and _is_pipe(kind)
    while len(found) <= LARGEST:
        if waits and not select.select([sys.stdin], [], [], stall)[0]:
            problem = f"standard input did not end: nothing more came for {stall:g} s"
            raise UsageError(
                problem, hint="close it, or read the task from it with -, which waits for its end"
            )
        piece = (
            sys.stdin.buffer.read(1 << 16) if kind is None else os.read(sys.stdin.fileno(), 1 << 16)
        )
        if not piece:
            return found.decode(errors="replace")
        found += piece
    raise UsageError(
        f"standard input brings more than {LARGEST} bytes, the most that a task may have",
        hint="put it into a file that the worker can read, and say where it is",
    )


def _kind() -> int | None:
    """The mode of standard input; None where a program put something else in its place, or it is closed."""
    try:
        return os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return None


def _is_pipe(kind: int) -> bool:
    return stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)
