"""Text search in zones: ripgrep or a program of forge finds lines, and the sandbox reads them."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import anyio
import msgspec
from anyio import to_thread
from anyio.abc import ByteReceiveStream, Process
from msgspec import Struct

from forge_cli.core.errors import ToolError
from forge_cli.core.text import MORE, counted, cut
from forge_cli.sandbox.files.caps import name_in
from forge_cli.sandbox.files.operations import FileOperations
from forge_cli.sandbox.names import shown, unusable
from forge_cli.sandbox.processes.command import clean_environment
from forge_cli.sandbox.protected import is_secret
from forge_cli.sandbox.search import program
from forge_cli.sandbox.search.files import (
    LARGE,
    SIZE_MAX,
    UNREADABLE,
    FileWalk,
    Include,
    SearchStart,
)

MAX_LINES = 10_001
"""Lines of one file that are counted."""
Found = Callable[[bytes, list[int] | None], bool]
"""Gets a file and its matching line numbers, or None for a binary file; False ends the search."""
EngineArgv = Sequence[str | bytes]
"""The process to start, without the files."""

_UNREADABLE_FILES = 2
"""The exit code of an engine that could not read some files."""
_PYTHON = (sys.executable, "-I", "-S", "-X", "utf8", "-W", "ignore", program.__file__)
# With memory maps, a file that shrinks would end the search; one thread keeps the order.
_RIPGREP = (
    "--no-config",
    "--no-ignore",
    "--case-sensitive",
    "--encoding=none",
    "--no-mmap",
    "--threads=1",
    f"--max-count={MAX_LINES}",
    "--json",
)
Engine = Literal["ripgrep", "python"]

MAX_PATTERN = 1000
MAX_COUNTED = MAX_LINES - 1
MAX_LINE = 500
BINARY = "binary"
NAME = "name"
REASONS = {
    LARGE: f"{{}} over {SIZE_MAX // 1024**2} MiB",
    UNREADABLE: "{} or folders that cannot be read",
    BINARY: "{} with a match in binary data",
    NAME: "{} with a match and an unusable name",
}
# A newline in a set such as ``[^\n]`` does not make a pattern match several lines.
_SETS = re.compile(r"\[\^?\]?(?:\\.|[^]\\])*\]", re.DOTALL)
_NEWLINE = re.compile(r"\n|(?<!\\)(?:\\\\)*\\n")


class Matches(Struct, frozen=True):
    """Matching lines as ``path:line:text``, and their total number."""

    pattern: str
    path: str
    lines: tuple[str, ...]
    total: int
    stopped: str | None = None
    """The reason that the search did not finish, if so; then ``total`` is the number found so
    far."""
    left_out: Mapping[str, int] = msgspec.field(default_factory=dict)
    """The number of files that were not searched or not shown, for each reason."""

    def text(self) -> str:
        more = self.total - len(self.lines)
        notes = [f"[{more} more]"] if more > 0 else []
        if self.stopped:
            notes.append(f"[{self.stopped}; use a folder, a file pattern or a longer pattern]")
        if self.left_out:
            reasons = [
                REASONS[why].format(counted(number, "file"))
                for why, number in sorted(self.left_out.items())
            ]
            notes.append(f"[left out: {', '.join(reasons)}]")
        nothing = f"No match for {shown(self.pattern)} in {shown(self.path)}."
        return "\n".join([*(self.lines or [nothing]), *notes])


async def grep(
    sandbox: FileOperations,
    pattern: str,
    path: str = "/",
    include: str | None = None,
    limit: int = 100,
    *,
    engine: Engine | None = None,
    timeout: float = 20,
) -> Matches:
    """Search a file, or every file below a folder; ``/`` means all zones.

    Hidden files, files ignored by ``.gitignore``, ``.env*``, binary files, files over 10 MiB and
    links are left out, and counted if a user may not expect that. ``engine`` defaults to ripgrep if
    it is installed and understands the pattern.
    """
    _check_pattern(pattern)
    chosen = Include.parse(include) if include else Include()
    program = _ripgrep(sandbox) if engine != "python" else None
    if engine == "ripgrep" and program is None:
        raise ToolError("ripgrep (rg) is not installed")
    hits = _Hits(sandbox, limit)
    ripgrep = (program, *_RIPGREP, b"--regexp=" + pattern.encode(), "--") if program else None
    search = _Search(pattern, chosen, hits, ripgrep)
    with anyio.move_on_after(timeout) as scope:
        for start in _starts(sandbox, path):
            await search.run(start)
    stopped = f"stopped after {timeout:g} seconds" if scope.cancelled_caught else hits.stopped
    return Matches(
        pattern, sandbox.spell(path), tuple(hits.lines()), hits.total, stopped, hits.left_out
    )


def _check_pattern(pattern: str) -> None:
    problem = None
    if not pattern:
        raise ToolError("the pattern is empty")
    if len(pattern) > MAX_PATTERN:
        problem = f"has {len(pattern)} characters; the limit is {MAX_PATTERN}"
    elif "\0" in pattern or not _is_text(pattern):
        problem = "has a character that no text contains"
    elif _NEWLINE.search(_SETS.sub("", pattern)):
        problem = "has a newline, but matches are within a line; search for one of the lines"
    if problem:
        raise ToolError(f"the pattern {shown(pattern)} {problem}")


def _is_text(pattern: str) -> bool:
    try:
        pattern.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse_unknown(pattern: str) -> None:
    """Raise a ToolError for a pattern that is not valid in Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ToolError(
            f"the pattern {shown(pattern)} is not a regular expression: {error}"
        ) from None


def _ripgrep(sandbox: FileOperations) -> str | None:
    """Return the path of ripgrep, unless tools could have written it."""
    program = shutil.which("rg")
    if program is None or not os.path.isabs(program):
        return None
    real = Path(os.path.realpath(program))
    if any(real.is_relative_to(zone.path) for zone in sandbox.zones):
        return None
    return str(real)


def refuse_secret(path: str, resolved: str = "") -> None:
    """Raise a ToolError for a path that may hold secrets, by its spelling or by its target."""
    for name in (*path.split("/"), *resolved.split("/")):
        if is_secret(name):
            reason = f"{shown(name)} may hold secrets; read the file instead"
            raise ToolError(f"{shown(path)} is not searched: {reason}")


def _starts(sandbox: FileOperations, path: str) -> Iterator[SearchStart]:
    info = sandbox.stat(path)
    if info.path == "/":
        for zone in sorted(sandbox.zones, key=lambda zone: zone.name):
            yield SearchStart(zone.path, hidden=sandbox.hidden)
        return
    refuse_secret(path, info.path)
    _, name, *below = info.path.split("/")
    root = next(zone.path for zone in sandbox.zones if zone.name == name)
    yield SearchStart(root, "/".join(below), is_file=info.kind == "file", hidden=sandbox.hidden)


@dataclass
class _Search:
    """A search for a pattern with one of the engines."""

    pattern: str
    include: Include
    hits: _Hits
    ripgrep: EngineArgv | None

    async def run(self, start: SearchStart) -> None:
        """Search below a start; a thread finds the files in batches."""
        batches = FileWalk(start, self.include).batches()
        while not self.hits.stopped and (
            batch := await to_thread.run_sync(next, batches, None, abandon_on_cancel=True)
        ):
            for why, path in batch.left_out:
                self.hits.leave_out(why, start.root, path)
            if not await self._search(start.root, batch.files):
                for path in batch.files:
                    if not os.access(start.root / os.fsdecode(path), os.R_OK):
                        self.hits.leave_out(UNREADABLE, start.root, path)

    async def _search(self, root: Path, files: Sequence[bytes]) -> bool:
        """Search a batch with ripgrep, or with Python if ripgrep is missing or fails."""

        def found(path: bytes, numbers: list[int] | None) -> bool:
            return self.hits.add(root, path, numbers)

        if self.ripgrep:
            try:
                return await _run(self.ripgrep, root, files, found)
            except EngineFailed:
                self.ripgrep = None
        _refuse_unknown(self.pattern)
        return await _run((*_PYTHON, str(MAX_LINES), self.pattern.encode()), root, files, found)


@dataclass
class _Hits:
    """The lines found so far: all are counted, the first ones are kept."""

    sandbox: FileOperations
    limit: int
    total: int = 0
    stopped: str | None = None
    _left_out: set[tuple[str, Path, bytes]] = field(default_factory=set)
    _kept: dict[str, list[int]] = field(default_factory=dict)
    _files: set[str] = field(default_factory=set)

    def add(self, root: Path, path: bytes, numbers: Sequence[int] | None) -> bool:
        """Add the matches of a file; return False if the search is to stop.

        A file in two zones counts once. An engine that stops in the middle of a file cannot know if
        it is binary.
        """
        real = root / os.fsdecode(path)
        name = name_in(self.sandbox, real) or str(real)
        if numbers is None or (len(numbers) >= MAX_LINES and b"\0" in self._content(name)):
            self.leave_out(BINARY, root, path)
        elif any(unusable(os.fsdecode(part)) for part in path.split(b"/")):
            self.leave_out(NAME, root, path)
        elif name not in self._files:
            self._files.add(name)
            room = self.limit - sum(map(len, self._kept.values()))
            if room > 0:
                self._kept[name] = list(numbers[:room])
            self.total += len(numbers)
        if self.total > MAX_COUNTED:
            self.stopped = f"stopped after more than {MAX_COUNTED} lines"
        return self.stopped is None

    def leave_out(self, why: str, root: Path, path: bytes) -> None:
        self._left_out.add((why, root, path))

    @property
    def left_out(self) -> Mapping[str, int]:
        return Counter(why for why, _, _ in self._left_out)

    def lines(self) -> Iterator[str]:
        """Yield the kept lines, read by the sandbox, so that nothing outside zones is shown."""
        for name, numbers in self._kept.items():
            lines = self._content(name).split(b"\n")
            spelled = self.sandbox.spell(name)
            for number in numbers:
                if number <= len(lines):
                    yield f"{spelled}:{number}:{_line(lines[number - 1])}"

    def _content(self, name: str) -> bytes:
        try:
            return self.sandbox.read_bytes(name, limit=SIZE_MAX, expected=name)
        except ToolError:
            return b""


def _line(line: bytes) -> str:
    return cut(line.decode(errors="replace").rstrip("\r"), MAX_LINE, "end", mark=MORE)


class EngineFailed(ToolError):
    """An engine that ended without a complete answer."""


async def _run(engine: EngineArgv, root: Path, files: Sequence[bytes], found: Found) -> bool:
    """Search files until ``found`` returns False; return True if all of them could be read.

    An empty file comes first, because an engine without any files would search the folder.
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
        raise EngineFailed(f"cannot start {os.fsdecode(argv[0])}: {error.strerror}") from None
    async with process:
        complete = False
        try:
            # Standard output is a pipe, and so never None.
            complete = await _read_answer(cast(ByteReceiveStream, process.stdout), found)
        finally:
            if not complete:
                _end(process)
    return not complete or process.returncode != _UNREADABLE_FILES


async def _read_answer(stream: ByteReceiveStream, found: Found) -> bool:
    """Return True if the answer was read to its end, False if ``found`` has enough."""
    answer = _Answer(found)
    waiting = [b""]
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
    """The messages of an engine for one file at a time; only the last one tells if it is binary."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._numbers: list[int] = []

    def takes(self, line: bytes) -> bool | None:
        """Read a message.

        Return True for the end of the answer, False to stop, and None to continue.
        """
        try:
            message: dict[str, Any] = json.loads(line)
            kind = message["type"]
            data = message["data"]
            if kind == "match":
                self._numbers.append(data["line_number"])
            elif kind == "end":
                numbers: list[int] | None = self._numbers
                self._numbers = []
                if data["binary_offset"] is not None:
                    numbers = None
                if not self._found(_path(data["path"]), numbers):
                    return False
        except (ValueError, KeyError, TypeError):
            raise EngineFailed("the search engine gave an unreadable answer") from None
        return True if kind == "summary" else None


def _path(value: dict[str, str]) -> bytes:
    path = base64.b64decode(value["bytes"]) if "bytes" in value else os.fsencode(value["text"])
    return path.removeprefix(b"./")


def _end(process: Process) -> None:
    """Kill the process.

    ``process.kill`` would also collect the exit status that the event loop waits for.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
