"""Standard input: the task that it brings, and whether a person is at it who can be asked."""

from __future__ import annotations

import os
import select
import stat
import sys

from forge_cli.core.errors import UsageError

PATIENCE = 3.0
"""Seconds to wait for the first byte of a pipe that may never speak, when a task was given anyway."""


def is_interactive() -> bool:
    """Can a person be asked? Standard output may be piped; input and error must be terminals, and CI never is one."""
    return not os.environ.get("CI") and sys.stdin.isatty() and sys.stderr.isatty()


def task_from(argument: str | None, *, optional: bool = False) -> str:
    """``-`` is the input itself; a task beside piped input gets the input as a block after it.

    Where the task is ``optional`` nothing but an argument makes one.
    """
    if optional and argument is None:
        return ""
    if argument == "-" or (argument is None and not sys.stdin.isatty()):
        task = _read_all()
    elif argument is None:
        raise UsageError(
            "no task was given", hint='say what to do: forge run WORKER "TASK", or - to read it from stdin'
        )
    else:
        block = _piped() if argument.strip() else ""
        task = f"{argument}\n\n<stdin>\n{block.removesuffix(chr(10))}\n</stdin>" if block.strip() else argument
    if not task.strip():
        raise UsageError("the task is empty", hint='say what to do: forge run WORKER "TASK"')
    return task


def _piped() -> str:
    """What was piped in; an input that is not a terminal but never speaks is given up after a moment."""
    try:
        kind = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return ""
    if sys.stdin.isatty():
        return ""
    if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind):
        ready, _, _ = select.select([sys.stdin], [], [], PATIENCE)
        if not ready:
            sys.stderr.write(
                "forge: nothing came from standard input, continuing without it (</dev/null skips it, - waits for it)\n"
            )
            return ""
    elif not stat.S_ISREG(kind):
        return ""
    return _read_all()


def _read_all() -> str:
    return sys.stdin.buffer.read().decode(errors="replace")
