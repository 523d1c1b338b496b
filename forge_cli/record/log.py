"""The log of a session on disk: lines of the record, each written before it is acted upon, readable after any crash."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from forge_cli.core.errors import ForgeError, Mark, WorkerError
from forge_cli.core.signature import JsonObject
from forge_cli.files.home import forge_home
from forge_cli.record.lock import lock, unlock
from forge_cli.record.recorder import line_hash

SUFFIX = ".jsonl"


class SessionLost(ForgeError):
    """The log cannot be written any more, so the work stops: what happens next would be forgotten."""


@dataclass(frozen=True)
class Log:
    """What was read of a session: its whole lines, and whether an unfinished one at the end was dropped."""

    path: Path
    lines: tuple[JsonObject, ...]
    size: int = 0
    """Bytes up to the end of the last whole line."""
    dropped: bool = False

    @property
    def session(self) -> str:
        return self.path.stem

    def copied(self, session: str) -> tuple[JsonObject, ...]:
        """The same lines as those of another session, with a chain of their own."""
        copies, prev = list[JsonObject](), None
        for line in self.lines:
            copy = {**line, "session": session, "prev": prev}
            prev = copy["hash"] = line_hash(copy)
            copies.append(copy)
        return tuple(copies)


def new_session_id() -> str:
    """Ids sort by the time of their making, and are short enough to type a part of."""
    return f"{datetime.now():%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:8]}"


def sessions_folder() -> Path:
    return forge_home() / "sessions"


def session_files() -> list[Path]:
    """Every session, the one that was worked on last first."""
    return [path for _, path in sorted(_by_time(), reverse=True)]


def _by_time() -> list[tuple[int, Path]]:
    found = list[tuple[int, Path]]()
    with suppress(OSError), os.scandir(sessions_folder()) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                if entry.name.endswith(SUFFIX):
                    found.append((entry.stat().st_mtime_ns, Path(entry.path)))
    return found


def find_session(name: str) -> Path:
    """The file of a session by its id, or by the beginning of it; a path to a log is taken as it is."""
    given = Path(name)
    return given if given.suffix == SUFFIX and given.is_file() else find_kept(name)


def find_kept(name: str) -> Path:
    """The same among forge's own sessions only."""
    found = [path for path in session_files() if path.name.startswith(name)] if name else []
    exact = [path for path in found if path.stem == name]
    match exact or found:
        case [path]:
            return path
        case []:
            raise WorkerError(None, f"there is no session '{name}'", hint="forge sessions list shows them")
        case several:
            ids = ", ".join(path.stem for path in several[:5])
            raise WorkerError(None, f"'{name}' is the beginning of {len(several)} sessions: {ids}", hint="type more")


def read_session(path: Path) -> Log:
    """The lines of a log; an unfinished last one is dropped, anything else that is no line is an error."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise WorkerError(Mark(str(path)), f"the session cannot be read: {error.strerror}") from None
    lines, size = list[JsonObject](), 0
    pieces = data.split(b"\n")
    for number, piece in enumerate(pieces[:-1], 1):
        line = parse_line(piece)
        if line is None:
            if number == len(pieces) - 1 and not pieces[-1]:
                break
            hint = "forge sessions verify shows what is left of it"
            raise WorkerError(Mark(str(path), number), "this is no line of a session", hint=hint)
        lines.append(line)
        size += len(piece) + 1
    return Log(path, tuple(lines), size, dropped=size < len(data))


def parse_line(piece: bytes) -> JsonObject | None:
    """A line of a log; None for what is none."""
    try:
        line = json.loads(piece)
    except (ValueError, RecursionError):
        return None
    known = isinstance(line, dict) and isinstance(line.get("seq"), int) and isinstance(line.get("type"), str)
    return line if known else None


def broken_link(log: Log) -> str | None:
    """Where the chain of a log does not hold, as a sentence; None when every line is what was written."""
    prev, seq = None, 0
    for number, line in enumerate(log.lines, 1):
        if line["seq"] != seq + 1:
            return f"line {number}: its number is {line['seq']}, not {seq + 1}"
        if line.get("prev") != prev:
            return f"line {number}: it does not follow the line before"
        if (sealed := _hash(line)) is None or line.get("hash") != sealed:
            return f"line {number}: it was changed after it was written"
        prev, seq = line["hash"], line["seq"]
    return None


def _hash(line: JsonObject) -> str | None:
    """None for what was never written: half a surrogate cannot be."""
    try:
        return line_hash(line)
    except UnicodeEncodeError:
        return None


@dataclass
class SessionLog:
    """A sink of the record that appends to the session's file; one process at a time."""

    path: Path
    _fd: int = -1
    _lock: int = -1
    _size: int = 0
    _torn: bool = False
    _new: bool = False
    _written: bool = False
    _lost: SessionLost | None = field(default=None, repr=False)

    @classmethod
    def create(cls, session: str) -> Self:
        """The log of a new session, which is there once it has a line; an OSError when the home cannot be written."""
        folder = sessions_folder()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        log = cls(folder / f"{session}{SUFFIX}", _new=True)
        log._open(os.O_CREAT | os.O_EXCL)
        return log

    @classmethod
    def go_on(cls, path: Path) -> tuple[Self, Log]:
        """The log of a session that goes on, and what stands in it; half a line at its end goes with the first write.

        Until then nothing is changed: it may turn out to be another file altogether.
        """
        log = cls(path)
        log._open(0)
        try:
            read = read_session(path)
        except BaseException:
            log.close()
            raise
        log._size, log._torn = read.size, read.dropped
        return log, read

    def _open(self, flags: int) -> None:
        self._lock = lock(self.path)
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | flags, 0o600)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __call__(self, line: JsonObject) -> None:
        if "seq" not in line:
            return
        if self._lost is None:
            self._write(line)
        elif line["type"] != "sessionEnd":
            raise self._lost

    def copy(self, lines: Iterable[JsonObject]) -> None:
        """Start with the lines of another session; all of them, or there is no session."""
        try:
            for line in lines:
                self._write(line)
        except SessionLost:
            self._written = False
            raise

    def _write(self, line: JsonObject) -> None:
        data = json.dumps(line, ensure_ascii=False).encode() + b"\n"
        try:
            if self._torn:
                os.ftruncate(self._fd, self._size)
                self._torn = False
            if os.write(self._fd, data) < len(data):
                raise OSError(0, "the disk is full")
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._fd, self._size)
            problem = f"the session's log cannot be written any more: {error.strerror}"
            go_on = "" if self._new and not self._written else f" and go on with -r {line['session']}"
            hint = f"make room for {self.path}{go_on}, or use --ephemeral"
            self._lost = SessionLost(problem, hint=hint)
            raise self._lost from None
        self._size += len(data)
        self._written = True

    def close(self) -> None:
        """Let go of the file, and of the lock last: who waits for it must not find a file that is about to go."""
        if self._fd >= 0:
            with suppress(OSError):
                self._leave()
            os.close(self._fd)
        if self._lock >= 0:
            unlock(self.path, self._lock)
        self._fd = self._lock = -1

    def _leave(self) -> None:
        """Be the last one by the clock of the files, even if that was set back; without a line, leave nothing."""
        if self._new and not self._written:
            self.path.unlink()
        elif self._written:
            latest = max((time for time, path in _by_time() if path != self.path), default=0)
            if os.fstat(self._fd).st_mtime_ns <= latest:
                os.utime(self._fd, ns=(latest + 1, latest + 1))
