"""The two engines of a search, ripgrep and a program of our own; both say in the same words which lines match."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import anyio
from anyio.abc import ByteReceiveStream, Process

from forge_cli.core.errors import ToolError
from forge_cli.sandbox.processes.command import clean_environment
from forge_cli.sandbox.search import program

LINES_MAX = 10_001
"""Lines of one file that are counted."""
Found = Callable[[bytes, list[int] | None], bool]
"""Told a file with matches and the numbers of their lines, or None for a binary one; False is enough."""
Engine = Sequence[str | bytes]
"""The process to start, but for the files."""

_UNREADABLE_FILES = 2
"""The exit code of an engine that has searched all but some files."""
_PYTHON = (sys.executable, "-I", "-S", "-X", "utf8", "-W", "ignore", program.__file__)
_RIPGREP = (
    "--no-config",
    "--no-ignore",
    "--case-sensitive",
    "--encoding=none",
    "--no-mmap",
    "--threads=1",
    f"--max-count={LINES_MAX}",
    "--json",
)


class EngineFailed(ToolError):
    """The engine did not get to the end of its answer."""


def ripgrep(path: str, pattern: str) -> Engine:
    return (path, *_RIPGREP, b"--regexp=" + pattern.encode(), "--")


def python(pattern: str) -> Engine:
    return (*_PYTHON, str(LINES_MAX), pattern.encode())


async def search(engine: Engine, root: Path, files: Sequence[bytes], found: Found) -> bool:
    """Search files below a root until ``found`` has enough; whether all of them could be read.

    An empty file comes first: an engine without any files would look for some.
    """
    argv = [*engine, os.devnull, *(b"./" + path for path in files)]
    try:
        process = await anyio.open_process(
            argv,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=root,
            env=clean_environment(),
            start_new_session=True,
        )
    except OSError as error:
        raise EngineFailed(f"{os.fsdecode(argv[0])} cannot be started: {error.strerror}") from None
    async with process:
        complete = False
        try:
            complete = await _read_answer(cast(ByteReceiveStream, process.stdout), found)
        finally:
            if not complete:
                _end(process)
    return not complete or process.returncode != _UNREADABLE_FILES


async def _read_answer(stream: ByteReceiveStream, found: Found) -> bool:
    """Whether it was read to its end."""
    answer, waiting = _Answer(found), [b""]
    async for data in stream:
        waiting.append(data)
        if b"\n" in data:
            *lines, rest = b"".join(waiting).split(b"\n")
            waiting = [rest]
            for line in lines:
                if (complete := answer.takes(line)) is not None:
                    return complete
    raise EngineFailed("the search ended without an answer")


class _Answer:
    """The messages of an engine, one file at a time: only at its end it is known whether it is binary."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._numbers: list[int] = []

    def takes(self, line: bytes) -> bool | None:
        """Whether the answer is complete with this line; None where more of it is wanted."""
        try:
            message: dict[str, Any] = json.loads(line)
            kind, data = message["type"], message["data"]
            if kind == "match":
                self._numbers.append(data["line_number"])
            elif kind == "end":
                numbers, self._numbers = self._numbers, []
                if not self._found(_path(data["path"]), numbers if data["binary_offset"] is None else None):
                    return False
        except (ValueError, KeyError, TypeError):
            raise EngineFailed("the search gave an answer that forge cannot read") from None
        return True if kind == "summary" else None


def _path(value: dict[str, str]) -> bytes:
    path = base64.b64decode(value["bytes"]) if "bytes" in value else os.fsencode(value["text"])
    return path.removeprefix(b"./")


def _end(process: Process) -> None:
    """Kill it; ``process.kill`` would first take away the exit status that the event loop waits for."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
