"""Searching text in the zones: ripgrep or a program of our own says where it is, the sandbox says what is there."""

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

LINES_MAX = 10_001
"""Lines of one file that are counted."""
Found = Callable[[bytes, list[int] | None], bool]
"""Told a file with matches and the numbers of their lines, or None for a binary one; False is enough."""
EngineArgv = Sequence[str | bytes]
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
Engine = Literal["ripgrep", "python"]

PATTERN_MAX = 1000
COUNTED_MAX = LINES_MAX - 1
LINE_MAX = 500
BINARY, NAME = "binary", "name"
REASONS = {
    LARGE: f"{{}} over {SIZE_MAX // 1024**2} MiB",
    UNREADABLE: "{} or folders that cannot be read",
    BINARY: "{} with a match in binary data",
    NAME: "{} with a match and a name no tool can use",
}
_SETS = re.compile(r"\[\^?\]?(?:\\.|[^]\\])*\]", re.DOTALL)
_NEWLINE = re.compile(r"\n|(?<!\\)(?:\\\\)*\\n")


class Matches(Struct, frozen=True):
    """The lines that match, as ``path:line:text`` with paths as results name them, and how many there are."""

    pattern: str
    path: str
    lines: tuple[str, ...]
    total: int
    stopped: str | None = None
    """Why the search did not get to its end; then ``total`` is only what it had found."""
    left_out: Mapping[str, int] = msgspec.field(default_factory=dict)
    """How many files were not searched or not shown, by the reason."""

    def text(self) -> str:
        more = self.total - len(self.lines)
        notes = [f"[{more} more]"] if more > 0 else []
        if self.stopped:
            notes.append(f"[{self.stopped}; name a folder, a file pattern, or a longer pattern]")
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
    """Search a file, or every file below a folder, ``/`` being all zones.

    Left out are hidden files, what ``.gitignore`` names, ``.env*``, binary files, those over 10 MiB, and links;
    what a user would not expect to be left out is counted.
    ``engine`` is ripgrep where there is one that knows the pattern, unless it is named.
    """
    _check_pattern(pattern)
    chosen = Include.parse(include) if include else Include()
    program = _ripgrep(sandbox) if engine != "python" else None
    if engine == "ripgrep" and program is None:
        raise ToolError("ripgrep is not installed; its command is called rg")
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
    if len(pattern) > PATTERN_MAX:
        problem = f"has {len(pattern)} characters, {PATTERN_MAX} are the most"
    elif "\0" in pattern or not _is_text(pattern):
        problem = "has a character that no text has"
    elif _NEWLINE.search(_SETS.sub("", pattern)):
        problem = "has a newline, and a match lies on one line; search for one of the lines"
    if problem:
        raise ToolError(f"the pattern {shown(pattern)} {problem}")


def _is_text(pattern: str) -> bool:
    try:
        pattern.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse_unknown(pattern: str) -> None:
    """Refuse a pattern that Python's regular expressions do not know."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ToolError(
            f"the pattern {shown(pattern)} is not a regular expression: {error}"
        ) from None


def _ripgrep(sandbox: FileOperations) -> str | None:
    """The program, unless it is one that tools could have written."""
    program = shutil.which("rg")
    if program is None or not os.path.isabs(program):
        return None
    real = Path(os.path.realpath(program))
    return None if any(real.is_relative_to(zone.path) for zone in sandbox.zones) else str(real)


def refuse_secret(path: str, resolved: str = "") -> None:
    """Refuse a path that may hold secrets, by how it is written and by where it leads."""
    if secret := next(
        (name for name in (*path.split("/"), *resolved.split("/")) if is_secret(name)), None
    ):
        raise ToolError(
            f"{shown(path)} is not searched: {shown(secret)} may hold secrets; read the file instead"
        )


def _starts(sandbox: FileOperations, path: str) -> Iterator[SearchStart]:
    info = sandbox.stat(path)
    if info.path == "/":
        yield from (
            SearchStart(zone.path, hidden=sandbox.hidden)
            for zone in sorted(sandbox.zones, key=lambda zone: zone.name)
        )
        return
    refuse_secret(path, info.path)
    _, name, *below = info.path.split("/")
    root = next(zone.path for zone in sandbox.zones if zone.name == name)
    yield SearchStart(root, "/".join(below), is_file=info.kind == "file", hidden=sandbox.hidden)


@dataclass
class _Search:
    """A pattern on its way through the files."""

    pattern: str
    include: Include
    hits: _Hits
    ripgrep: EngineArgv | None

    async def run(self, start: SearchStart) -> None:
        """Search what is below a start; the files are found in a thread, a batch at a time."""
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
        """One batch by ripgrep; by Python where there is none, or one that does not know the pattern or is too old."""

        def found(path: bytes, numbers: list[int] | None) -> bool:
            return self.hits.add(root, path, numbers)

        if self.ripgrep:
            try:
                return await _run(self.ripgrep, root, files, found)
            except EngineFailed:
                self.ripgrep = None
        _refuse_unknown(self.pattern)
        return await _run((*_PYTHON, str(LINES_MAX), self.pattern.encode()), root, files, found)


@dataclass
class _Hits:
    """The lines found so far: every one is counted, the first ones are kept."""

    sandbox: FileOperations
    limit: int
    total: int = 0
    stopped: str | None = None
    _left_out: set[tuple[str, Path, bytes]] = field(default_factory=set)
    _kept: dict[str, list[int]] = field(default_factory=dict)
    _files: set[str] = field(default_factory=set)

    def add(self, root: Path, path: bytes, numbers: Sequence[int] | None) -> bool:
        """Whether the search continues; a file that lies in two zones counts once.

        An engine that stops in the middle of a file has not seen whether it is binary.
        """
        real = root / os.fsdecode(path)
        name = name_in(self.sandbox, real) or str(real)
        if numbers is None or (len(numbers) >= LINES_MAX and b"\0" in self._content(name)):
            self.leave_out(BINARY, root, path)
        elif any(unusable(os.fsdecode(part)) for part in path.split(b"/")):
            self.leave_out(NAME, root, path)
        elif name not in self._files:
            self._files.add(name)
            room = self.limit - sum(map(len, self._kept.values()))
            if room > 0:
                self._kept[name] = list(numbers[:room])
            self.total += len(numbers)
        if self.total > COUNTED_MAX:
            self.stopped = f"stopped after more than {COUNTED_MAX} lines"
        return self.stopped is None

    def leave_out(self, why: str, root: Path, path: bytes) -> None:
        self._left_out.add((why, root, path))

    @property
    def left_out(self) -> Mapping[str, int]:
        return Counter(why for why, _, _ in self._left_out)

    def lines(self) -> Iterator[str]:
        """The kept lines, read by the sandbox: what an engine saw beyond the zones is not shown."""
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
    return cut(line.decode(errors="replace").rstrip("\r"), LINE_MAX, "end", mark=MORE)


class EngineFailed(ToolError):
    """The engine did not get to the end of its answer."""


async def _run(engine: EngineArgv, root: Path, files: Sequence[bytes], found: Found) -> bool:
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
                numbers = self._numbers
                self._numbers = []
                if not self._found(
                    _path(data["path"]), numbers if data["binary_offset"] is None else None
                ):
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
