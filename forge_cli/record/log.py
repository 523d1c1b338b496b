"""The log of a session on disk: where it is, who works on it, and what can be read of it."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from forge_cli.core.errors import ForgeError, Mark
from forge_cli.files.home import forge_home
from forge_cli.files.lock import acquire, locked
from forge_cli.files.places import cannot_read
from forge_cli.files.regular import read_regular
from forge_cli.record.line import BadLine, Line

LOCK = ".lock"
_TRIES, _PAUSE = 25, 0.02
_FOLDER, SUFFIX = "sessions", ".jsonl"
INDEX = ".index.json"
"""The file of what is known of all sessions, beside their logs."""


class SessionBusy(ForgeError):
    """Another process works on this session."""


def lock(path: Path, hint: str = "wait for it to end, or start a copy with --fork") -> int:
    """Hold the lock of a log; its file, beside the log, names the process that has it.

    A process that has it without a name is about to write it, or only looks whether it is free, so it is tried again.
    A full disk has no room for the name: then the process that waits is not told which one has it.
    """
    for _ in range(_TRIES):
        try:
            descriptor = acquire(lock_file(path), wait=False)
        except BlockingIOError:
            if (pid := _named(path)) is not None and _lives(pid):
                break
            time.sleep(_PAUSE)
            continue
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
        return descriptor
    raise SessionBusy(f"the session {path.stem} is in use by the process {_named(path) or 'unknown'}", hint=hint)


def unlock(path: Path, descriptor: int) -> None:
    """Let go of the lock; the file goes first, or it could be the one of the next process."""
    with suppress(OSError):
        os.unlink(lock_file(path))
    os.close(descriptor)


def holder(path: Path) -> int | None:
    """The process that works on a log right now; the lock itself is only touched while that process lives."""
    pid = _named(path)
    if pid is None or not _lives(pid):
        return None
    try:
        with locked(lock_file(path), shared=True, wait=False, create=False):
            return None
    except BlockingIOError:
        return pid
    except OSError:
        return None


def lock_file(path: Path) -> str:
    return beside(path, LOCK)


def _named(path: Path) -> int | None:
    try:
        text = read_regular(lock_file(path))
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


class SessionLost(ForgeError):
    """The log cannot be written any more, so the work stops: what happens next would be forgotten."""


@dataclass(frozen=True)
class Log:
    """The readable part of a session: its whole lines, and whether an unfinished one at the end was dropped."""

    path: Path
    lines: tuple[Line, ...]
    size: int = 0
    """Bytes up to the end of the last whole line."""
    dropped: bool = False
    bad: tuple[BadLine, ...] = ()
    """Lines that are not what forge writes; the rest can be read all the same."""

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
    return f"{datetime.now():%Y%m%d-%H%M%S}-{os.urandom(4).hex()}"


def sessions_folder() -> Path:
    return forge_home() / _FOLDER


def session_file(session: str) -> Path:
    """The log of a session, by its whole id."""
    return forge_home().joinpath(_FOLDER, f"{session}{SUFFIX}")


def beside(log: Path, ending: str) -> str:
    """The path of something that belongs to a log for the time being, and is not a session."""
    folder, name = os.path.split(log)
    return os.path.join(folder, f".{name}{ending}")


def is_there(log: Path) -> bool:
    """Has a session got its log? An OSError where that cannot be told."""
    try:
        os.stat(log)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def read_session(path: Path) -> Log:
    """The lines of a log; an unfinished last one is dropped, anything else that is not a line is an error."""
    log = read_readable(path)
    if log.bad:
        raise log.bad[0]
    return log


def read_readable(path: Path) -> Log:
    """Read what can be read of a log, and note what cannot."""
    try:
        data = read_regular(path)
    except OSError as error:
        raise cannot_read(path, error, "the session ") from None
    lines, bad, size = list[Line](), list[BadLine](), 0
    pieces = data.split(b"\n")
    for number, piece in enumerate(pieces[:-1], 1):
        try:
            lines.append(Line.read(piece, Mark(str(path), number)))
        except BadLine as error:
            if number == len(pieces) - 1 and not pieces[-1]:
                break
            bad.append(error)
        size += len(piece) + 1
    return Log(path, tuple(lines), size, dropped=size < len(data), bad=tuple(bad))


def broken_link(log: Log) -> str | None:
    """The place where the chain of a log does not hold, as a sentence; None when every line is what was written."""
    broken = _broken(log)
    return f"line {broken[0]}: {broken[1]}" if broken else None


def damage_of(log: Log) -> str | None:
    """The first thing that is wrong with a log, as a sentence with its place; None when it is what was written."""
    broken = _broken(log)
    bad = log.bad[0].where if log.bad else None
    if bad and (broken is None or bad.line <= broken[0]):
        return f"{bad}: {log.bad[0].message}"
    return f"{log.path}:{broken[0]}: {broken[1]}" if broken else None


def missing_line(log: Log) -> str | None:
    """The place where lines of a log are missing, as a sentence; None where all of them are there, changed or not."""
    whole = all(line.seq == number for number, line in enumerate(log.lines, 1))
    return None if whole else broken_link(log)


def _broken(log: Log) -> tuple[int, str] | None:
    before: Line | None = None
    for line in log.lines:
        expected = before.seq + 1 if before else 1
        if line.seq != expected:
            return line.where.line, f"its number is {line.seq}, not {expected}"
        if line.prev != (before.hash if before else None):
            return line.where.line, "it does not follow the line before"
        if not line.intact:
            return line.where.line, "it was changed after it was written"
        before = line
    return None
