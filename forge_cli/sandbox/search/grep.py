"""Searching text in the zones: engines say where it is, the sandbox says what is there."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal

import anyio

from forge_cli.core.errors import ToolError
from forge_cli.core.text import MORE, counted, cut
from forge_cli.core.values import dataclass
from forge_cli.sandbox.files.caps import name_in
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.protected import is_secret
from forge_cli.sandbox.search import engines
from forge_cli.sandbox.search.query import LINES_MAX, SIZE_MAX, FileFilter, Query, SearchStart, is_usable
from forge_cli.sandbox.search.scan import BINARY, LARGE, UNREADABLE

Engine = Literal["ripgrep", "python"]

COUNTED_MAX = LINES_MAX - 1
LINE_MAX = 500
NAME = "name"
REASONS = {
    LARGE: f"{{}} over {SIZE_MAX // 1024**2} MiB",
    UNREADABLE: "{} or folders that cannot be read",
    BINARY: "{} with a match that are binary",
    NAME: "{} with a match that have a name no tool can use",
}


@dataclass(frozen=True)
class Matches:
    """The lines that match, as ``path:line:text`` with paths as results name them, and how many there are."""

    pattern: str
    path: str
    lines: tuple[str, ...]
    total: int
    stopped: str | None = None
    """Why the search did not get to its end; then ``total`` is only what it had found."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """How many files were not searched or not shown, by the reason."""

    def text(self) -> str:
        more = self.total - len(self.lines)
        notes = [f"[{more} more]"] if more > 0 else []
        if self.stopped:
            notes.append(f"[{self.stopped}; name a folder, a file pattern, or a longer pattern]")
        if self.left_out:
            reasons = [REASONS[why].format(counted(number, "file")) for why, number in sorted(self.left_out.items())]
            notes.append(f"[left out: {', '.join(reasons)}]")
        nothing = f"No match for {shown(self.pattern)} in {shown(self.path)}."
        return "\n".join([*(self.lines or [nothing]), *notes])


async def grep(
    sandbox: Sandbox,
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
    what nobody would expect to be left out is counted.
    ``engine`` is ripgrep where there is one, unless it is named.
    """
    query = Query.of(pattern, include)
    program = _ripgrep(sandbox) if engine != "python" else None
    if engine == "ripgrep" and program is None:
        raise ToolError("ripgrep is not installed; its command is called rg")
    hits = _Hits(sandbox, limit)
    with anyio.move_on_after(timeout) as scope:
        for start in _starts(sandbox, path):
            await _search(program, start, query, hits)
    stopped = f"stopped after {timeout:g} seconds" if scope.cancelled_caught else hits.stopped
    return Matches(pattern, sandbox.spell(path), tuple(hits.lines()), hits.total, stopped, hits.left_out)


async def _search(program: str | None, start: SearchStart, query: Query, hits: _Hits) -> None:
    """One start by ripgrep; by the other engine where there is none, or one that fails, being too old perhaps."""
    listener = _Listener(start, FileFilter(start, query), hits)
    if start.size > SIZE_MAX:
        return listener.left_out(os.fsencode(start.below), LARGE)
    if program:
        try:
            return await engines.ripgrep(program, start, query, listener)
        except engines.EngineFailed:
            pass
    return await engines.python(start, query, listener)


def _ripgrep(sandbox: Sandbox) -> str | None:
    """The program, unless it is one that tools could have written."""
    program = shutil.which("rg")
    if program is None or not os.path.isabs(program):
        return None
    real = Path(os.path.realpath(program))
    return None if any(real.is_relative_to(zone.path) for zone in sandbox.zones) else str(real)


def refuse_secret(path: str, resolved: str = "") -> None:
    """Refuse a path that may hold secrets, by how it is written and by where it leads."""
    if secret := next((name for name in (*path.split("/"), *resolved.split("/")) if is_secret(name)), None):
        raise ToolError(f"{shown(path)} is not searched: {shown(secret)} may hold secrets; read the file instead")


def _starts(sandbox: Sandbox, path: str) -> Iterator[SearchStart]:
    info = sandbox.stat(path)
    if info.path == "/":
        yield from (SearchStart(zone.path) for zone in sorted(sandbox.zones, key=lambda zone: zone.name))
        return
    refuse_secret(path, info.path)
    _, name, *below = info.path.split("/")
    root = next(zone.path for zone in sandbox.zones if zone.name == name)
    yield SearchStart(root, "/".join(below), is_file=info.kind == "file", size=info.size if info.kind == "file" else 0)


@dataclass
class _Listener:
    """Takes what an engine finds from one start on to the hits, if it counts."""

    start: SearchStart
    choice: FileFilter
    hits: _Hits

    def found(self, path: bytes, numbers: Sequence[int]) -> bool:
        if not self.choice.takes(path):
            return True
        if not is_usable(path):
            self.left_out(path, NAME)
            return True
        return self.hits.add(self.start, path, numbers)

    def left_out(self, path: bytes | None, why: str) -> None:
        if path is None or why == UNREADABLE or self.choice.takes(path):
            self.hits.leave_out(why, self.start.root / os.fsdecode(path) if path else object())


@dataclass
class _Hits:
    """What was found so far: every matching line is counted, the first ones are kept."""

    sandbox: Sandbox
    limit: int
    total: int = 0
    stopped: str | None = None
    _left_out: set[tuple[str, object]] = field(default_factory=set)
    _kept: dict[str, list[int]] = field(default_factory=dict)
    _files: set[str] = field(default_factory=set)

    def add(self, start: SearchStart, path: bytes, numbers: Sequence[int]) -> bool:
        """Whether the search continues; a file that lies in two zones counts once.

        An engine that stops in the middle of a file has not seen whether it is binary.
        """
        name = self._virtual(start.root, os.fsdecode(path))
        if len(numbers) >= LINES_MAX and b"\0" in self._content(name):
            self.leave_out(BINARY, start.root / os.fsdecode(path))
        elif name not in self._files:
            self._files.add(name)
            room = self.limit - sum(map(len, self._kept.values()))
            if room > 0:
                self._kept[name] = list(numbers[:room])
            self.total += len(numbers)
        if self.total > COUNTED_MAX:
            self.stopped = f"stopped after more than {COUNTED_MAX} lines"
        return self.stopped is None

    def leave_out(self, why: str, file: object) -> None:
        self._left_out.add((why, file))

    @property
    def left_out(self) -> Mapping[str, int]:
        return Counter(why for why, _ in self._left_out)

    def lines(self) -> Iterator[str]:
        """The kept lines, read by the sandbox: what an engine saw beyond the zones is not shown."""
        for name, numbers in self._kept.items():
            lines, spelled = self._content(name).split(b"\n"), self.sandbox.spell(name)
            for number in numbers:
                if number <= len(lines):
                    yield f"{spelled}:{number}:{_line(lines[number - 1])}"

    def _content(self, name: str) -> bytes:
        try:
            return self.sandbox.read_bytes(name, limit=SIZE_MAX, expected=name)
        except ToolError:
            return b""

    def _virtual(self, root: Path, path: str) -> str:
        real = root / path
        return name_in(self.sandbox, real) or str(real)


def _line(line: bytes) -> str:
    return cut(line.decode(errors="replace").rstrip("\r"), LINE_MAX, "end", mark=MORE)
