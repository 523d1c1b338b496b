"""The log of a session on disk: lines of the record, each written before it is acted upon, readable after any crash."""

from __future__ import annotations

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
from forge_cli.core.events import SessionEnd
from forge_cli.files.home import forge_home, make_private
from forge_cli.record.line import BadLine, Line
from forge_cli.record.lock import lock, unlock
from forge_cli.record.proof import Proof, is_proven

SUFFIX = ".jsonl"
LAST = "last"
"""Names the session that was worked on last."""


class SessionLost(ForgeError):
    """The log cannot be written any more, so the work stops: what happens next would be forgotten."""


@dataclass(frozen=True)
class Log:
    """What was read of a session: its whole lines, and whether an unfinished one at the end was dropped."""

    path: Path
    lines: tuple[Line, ...]
    size: int = 0
    """Bytes up to the end of the last whole line."""
    dropped: bool = False

    @property
    def session(self) -> str:
        return self.path.stem

    def copied(self, session: str) -> tuple[Line, ...]:
        """The same lines as those of another session, with a chain of their own."""
        copies = list[Line]()
        for line in self.lines:
            copies.append(line.copied(session, copies[-1] if copies else None))
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
    found, folder = list[tuple[int, Path]](), sessions_folder()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    if entry.name.endswith(SUFFIX):
                        found.append((entry.stat().st_mtime_ns, Path(entry.path)))
    except FileNotFoundError:
        pass
    except OSError as error:
        hint = "FORGE_HOME names the folder in which sessions are kept"
        raise ForgeError(f"{folder} cannot be read: {error.strerror}", hint=hint) from None
    return found


def find_session(name: str) -> Path:
    """The file of a session by its id, or by the beginning of it; a path to a log is taken as it is."""
    given = Path(name)
    return given if given.suffix == SUFFIX and given.is_file() else find_kept(name)


def find_record(name: str) -> Path:
    """The file of a record, whatever it is called, or of a session."""
    path = Path(name)
    if path.is_file():
        return path
    if path.suffix == SUFFIX or os.sep in name:
        raise WorkerError(Mark(name), "there is no such record", hint="forge run WORKER TASK --record FILE makes one")
    return find_session(name)


def find_kept(name: str) -> Path:
    """The same among forge's own sessions only; the random end of an id will do, too, and ``last`` is the last one."""
    files = session_files() if name else []
    exact = files[:1] if name == LAST else [path for path in files if path.stem == name]
    begin = [path for path in files if path.name.startswith(name)]
    match exact or begin or [path for path in files if path.stem.endswith(f"-{name}")]:
        case [path]:
            return path
        case []:
            raise WorkerError(None, f"there is no session '{name}'", hint="forge sessions list shows them")
        case several:
            ids = ", ".join(path.stem for path in several[:5])
            raise WorkerError(None, f"'{name}' is the beginning of {len(several)} sessions: {ids}", hint="type more")


def read_session(path: Path) -> Log:
    """The lines of a log; an unfinished last one is dropped, anything else that is not a line is an error."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise WorkerError(Mark(str(path)), f"the session cannot be read: {error.strerror}") from None
    lines, size = list[Line](), 0
    pieces = data.split(b"\n")
    for number, piece in enumerate(pieces[:-1], 1):
        try:
            lines.append(Line.read(piece, Mark(str(path), number)))
        except BadLine:
            if number == len(pieces) - 1 and not pieces[-1]:
                break
            raise
        size += len(piece) + 1
    return Log(path, tuple(lines), size, dropped=size < len(data))


def broken_link(log: Log) -> str | None:
    """Where the chain of a log does not hold, as a sentence; None when every line is what was written."""
    before: Line | None = None
    for number, line in enumerate(log.lines, 1):
        expected = before.seq + 1 if before else 1
        if line.seq != expected:
            return f"line {number}: its number is {line.seq}, not {expected}"
        if line.prev != (before.hash if before else None):
            return f"line {number}: it does not follow the line before"
        if not line.intact:
            return f"line {number}: it was changed after it was written"
        before = line
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

    def __post_init__(self) -> None:
        self._proof = Proof(self.path)

    @classmethod
    def create(cls, session: str) -> Self:
        """The log of a new session, which is there once it has a line; an OSError when the home cannot be written."""
        folder = sessions_folder()
        make_private(folder)
        log = cls(folder / f"{session}{SUFFIX}", _new=True)
        log._open(os.O_CREAT | os.O_EXCL)
        return log

    @classmethod
    def resume(cls, path: Path) -> tuple[Self, Log]:
        """The log of a session to be resumed, and what it holds; half a line at its end goes with the first write.

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
        log._proof.whole = is_proven(path, read.lines)
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

    def __call__(self, line: Line) -> None:
        if line.transient:
            return
        if self._lost is None:
            self._write(line)
            self._proof.write(line)
        elif line.type != SessionEnd.type:
            raise self._lost

    def copy(self, lines: Iterable[Line]) -> None:
        """Start with the lines of another session; all of them, or there is no session."""
        try:
            for line in lines:
                self._write(line)
        except SessionLost:
            self._written = False
            raise

    def _write(self, line: Line) -> None:
        data = line.text().encode()
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
            resume = "" if self._new and not self._written else f" and resume with -r {line.session}"
            hint = f"make room for {self.path}{resume}, or use --ephemeral"
            self._lost = SessionLost(problem, hint=hint)
            raise self._lost from None
        self._size += len(data)
        self._written = True

    def close(self) -> None:
        """Let go of the file, and of the lock last: who waits for it must not find a file that is about to go."""
        self._proof.close()
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
