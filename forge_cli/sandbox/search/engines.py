"""The two engines of a search: ripgrep, and a program of our own; both only say which lines of which files match."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile
from typing import IO, Any, Protocol, cast

import anyio
from anyio.abc import ByteReceiveStream, Process

from forge_cli.core.errors import ToolError
from forge_cli.sandbox.processes.command import clean_environment
from forge_cli.sandbox.search.ignore import IgnoreLevel
from forge_cli.sandbox.search.pattern import Dialects
from forge_cli.sandbox.search.query import LINES_MAX, SIZE_MAX, Query, SearchStart
from forge_cli.sandbox.search.scan import BINARY, LARGE, UNREADABLE

Split = Callable[[bytes], tuple[list[bytes], bytes]]

_PACKAGES = str(Path(__file__).resolve().parents[3])
_PROGRAM = "import sys; sys.path.append(sys.argv.pop(1)); from forge_cli.sandbox.search.{} import main; main()"
_PYTHON = ("-I", "-S", "-X", "utf8", "-c")
_TYPE = "forgeinclude"
_MATCH, _NUMBER = b'{"type":"match",', b'"line_number":'
_RIPGREP = (
    "--no-config",
    "--case-sensitive",
    "--encoding=none",
    "--no-mmap",
    "--no-require-git",
    "--no-ignore-dot",
    "--no-ignore-exclude",
    "--no-ignore-global",
    "--no-ignore-parent",
    f"--max-count={LINES_MAX}",
    f"--max-filesize={SIZE_MAX}",
    "--json",
    "--sort=path",
    "--binary",
    "--debug",
)
_SYSTEM_ERROR = re.compile(rb"^(?!.*DEBUG\|).* \(os error \d+\)$", re.MULTILINE)
_TOO_LARGE = re.compile(rb"DEBUG\|ignore::walk\|.*?: ignoring (?:\./)?(.*): \d+ bytes$", re.MULTILINE)
"""The only word of ripgrep on files over its limit; to list all files twice takes longer than to search them."""


class Listener(Protocol):
    """Who is told what an engine finds; paths are below the root."""

    def found(self, path: bytes, numbers: Sequence[int]) -> bool:
        """A file has matches in these lines; False is enough."""

    def left_out(self, path: bytes | None, why: str) -> None:
        """A file is too large or cannot be read, or it matches and is binary; None where its path is not known."""


class EngineFailed(ToolError):
    """The engine did not get to the end of its answer."""


async def ripgrep(program: str, start: SearchStart, query: Query, listener: Listener) -> None:
    """Search with ripgrep; what it says besides its answer names files that it could not read, and too large ones."""
    options = [program, *_RIPGREP, f"--regexp={query.pattern.rust}"]
    if query.last_name:
        options += [f"--type-add={_TYPE}:{query.last_name}", f"--type={_TYPE}"]
    with _rules_above(start) as files, TemporaryFile() as errors:
        argv = [*options, *files, "--", start.below or "."]
        if await _read_matches(argv, start.root, _lines, _RipgrepAnswer(listener).takes, errors):
            errors.seek(0)
            said = errors.read()
            for _ in _SYSTEM_ERROR.findall(said):
                listener.left_out(None, UNREADABLE)
            for path in _TOO_LARGE.findall(said):
                listener.left_out(path, LARGE)


@contextmanager
def _rules_above(start: SearchStart) -> Iterator[list[str]]:
    """The rules above the start, as a file: ripgrep by itself would read those above the zone as well."""
    rules = list(IgnoreLevel.above_folder(os.fsencode(start.below), root=str(start.root)).lines())
    if not rules:
        yield []
        return
    with NamedTemporaryFile("w", encoding="utf-8", errors="surrogateescape", suffix=".ignore") as file:
        file.write("\n".join(rules))
        file.flush()
        yield [f"--ignore-file={file.name}"]


async def python(start: SearchStart, query: Query, listener: Listener) -> None:
    """Search with Python; its regular expressions take a while to be there, and a plain text does without."""
    pattern = query.pattern
    program = _PROGRAM.format("text" if pattern.is_text else "expression")
    argv = [sys.executable, *_PYTHON, program, _PACKAGES, start.below, query.include, str(SIZE_MAX), str(LINES_MAX)]
    argv += [pattern.literal] if pattern.is_text else _expression_args(pattern)

    def takes(record: bytes) -> bool | None:
        path, _, told = record.partition(b"\0")
        if told and not told[:1].isdigit():
            listener.left_out(path, told.decode())
            return True
        return listener.found(path, [int(number) for number in told.split(b",")]) if path else None

    await _read_matches(argv, start.root, _records, takes)


def _expression_args(pattern: Dialects) -> list[str]:
    return [pattern.plain, pattern.careful, pattern.literal, "any case" if pattern.any_case else ""]


async def _read_matches(
    argv: Sequence[str],
    root: Path,
    split: Split,
    takes: Callable[[bytes], bool | None],
    errors: IO[bytes] | int = subprocess.DEVNULL,
) -> bool:
    """Pass each record that a program prints to ``takes`` until that returns False (enough) or None (the end).

    Returns whether the end was reached.
    """
    try:
        process = await anyio.open_process(
            argv,
            stdin=subprocess.DEVNULL,
            stderr=errors,
            cwd=root,
            env=clean_environment(),
            start_new_session=True,
        )
    except OSError as error:
        raise EngineFailed(f"{argv[0]} cannot be started: {error.strerror}") from None
    async with process:
        answer: bool | None = False
        try:
            answer = await _read_records(cast(ByteReceiveStream, process.stdout), split, takes)
        finally:
            if answer is False:
                _end(process)
    if answer is True:
        raise EngineFailed("the search ended without an answer")
    return answer is None


async def _read_records(stream: ByteReceiveStream, split: Split, takes: Callable[[bytes], bool | None]) -> bool | None:
    """What ``takes`` returned for the last record; True when the output ended too early."""
    waiting: list[bytes] = []
    async for data in stream:
        waiting.append(data)
        if b"\n" in data:
            records, rest = split(b"".join(waiting))
            waiting = [rest]
            for record in records:
                if not (answer := takes(record)):
                    return answer
    return True


def _end(process: Process) -> None:
    """Kill it; ``process.kill`` would first take away the exit status that the event loop waits for."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


def _lines(data: bytes) -> tuple[list[bytes], bytes]:
    *lines, rest = data.split(b"\n")
    return lines, rest


def _records(data: bytes) -> tuple[list[bytes], bytes]:
    """Each ends with the first newline behind its NUL: a path may have newlines too."""
    records = []
    while (nul := data.find(b"\0")) >= 0 and (end := data.find(b"\n", nul)) >= 0:
        records.append(data[:end])
        data = data[end + 1 :]
    return records, data


class _RipgrepAnswer:
    """The messages of ripgrep, one file at a time: only at its end it is known whether it is binary."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._numbers: list[int] = []

    def takes(self, line: bytes) -> bool | None:
        if line.startswith(_MATCH):
            # a quote inside a string of JSON has a backslash before it, so this is not text of the file
            start = line.index(_NUMBER) + len(_NUMBER)
            self._numbers.append(int(line[start : line.index(b",", start)]))
            return True
        message: dict[str, Any] = json.loads(line)
        numbers, self._numbers = self._numbers, []
        if message["type"] == "end":
            path = _path(message["data"]["path"])
            if message["data"]["binary_offset"] is None:
                return self._listener.found(path, numbers)
            self._listener.left_out(path, BINARY)
        return None if message["type"] == "summary" else True


def _path(value: dict[str, str]) -> bytes:
    path = base64.b64decode(value["bytes"]) if "bytes" in value else value["text"].encode()
    return path.removeprefix(b"./")
