"""Logs of sessions: which there are, which of them a name means, and whether every line is the one that was written."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from forge_cli.core.errors import ForgeError, Mark, WorkerError
from forge_cli.core.events import VERSION, Event
from forge_cli.core.wire import camel_case
from forge_cli.files.places import cannot_read
from forge_cli.files.regular import read_regular
from forge_cli.record.line import BadLine, Line
from forge_cli.record.places import SUFFIX, sessions_folder


class Log(Struct, frozen=True):
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
    lines: list[Line] = []
    bad: list[BadLine] = []
    size = 0
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


def check_log(read: Log) -> None:
    """Refuse to resume a log that is not what forge wrote."""
    if not read.lines:
        raise WorkerError(None, f"the session {read.session} is empty", hint="start a new one")
    if (version := read.lines[0].version) != VERSION:
        raise WorkerError(
            None,
            f"the session {read.session} is of version {version}, which this forge cannot read",
        )
    if problem := broken_link(read):
        hint = f"forge sessions show {read.session} shows what it says"
        raise WorkerError(
            None, f"the session {read.session} was tampered with: {problem}", hint=hint
        )


LAST = "last"
"""Names the session that was worked on last."""
CANDIDATES = 5
"""Sessions that are listed where a name could be several."""


def session_files() -> list[Path]:
    """Every session, the one that was worked on last first."""
    return [path for _, path in sorted(files_by_time(), reverse=True)]


def files_by_time() -> list[tuple[int, Path]]:
    """The logs that have a line, each with the time of its last one; other files are not sessions."""
    found: list[tuple[int, Path]] = []
    folder = sessions_folder()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.name.endswith(SUFFIX):
                        info = entry.stat()
                        if stat.S_ISREG(info.st_mode) and info.st_size:
                            found.append((info.st_mtime_ns, Path(entry.path)))
    except FileNotFoundError:
        pass
    except OSError as error:
        hint = "FORGE_HOME names the folder in which sessions are kept"
        raise ForgeError(f"{folder} cannot be read: {error.strerror}", hint=hint) from None
    return found


def find_session(name: str) -> Path:
    """The file of a session by its id, a part that only it has, or ``last``; a path to a log is taken as it is."""
    given = Path(name)
    return given if given.suffix == SUFFIX and os.path.isfile(given) else find_kept(name)


def find_record(name: str) -> Path:
    """The file of a record, with any name, or of a session."""
    path = Path(name)
    if os.path.isfile(path):
        return path
    if path.suffix == SUFFIX or os.sep in name:
        raise WorkerError(
            Mark(name),
            "there is no such record",
            hint="forge run WORKER TASK --record FILE makes one",
        )
    return find_session(name)


def find_kept(name: str) -> Path:
    """The same among forge's own sessions only; the random end of an id will do, too, and ``last`` is the last one."""
    files = session_files()
    match _last(files) if name == LAST else _named(name, files):
        case [path]:
            return path
        case []:
            recent = "".join(f"; the last is {path.stem}" for path in _last(files))
            raise WorkerError(
                None,
                f"there is no session '{name}'",
                hint=f"forge sessions list shows them{recent}",
            )
        case several:
            ids = "\n  ".join(path.stem for path in several[:CANDIDATES])
            more = f"\n  and {len(several) - CANDIDATES} more" if len(several) > CANDIDATES else ""
            raise WorkerError(
                None, f"'{name}' could be {len(several)} sessions; type more of it", hint=ids + more
            )


def _last(files: Sequence[Path]) -> list[Path]:
    return next(([path] for path in files if _has_line(path)), [])


def _has_line(path: Path) -> bool:
    """Whether it can be a session: one that may not be read is told of where it is opened."""
    try:
        return bool(read_readable(path).lines)
    except WorkerError:
        return True


def _named(name: str, files: Sequence[Path]) -> list[Path]:
    """The session of this very id; else those that begin so; else the one whose random end it is."""
    ids = {path.stem: path for path in files if name}
    exact = [path for session, path in ids.items() if session == name]
    begin = [path for session, path in ids.items() if session.startswith(name)]
    return exact or begin or [path for session, path in ids.items() if random_end(session) == name]


def random_end(session: str) -> str:
    """The part that tells a session from all others; its id for one that is called otherwise."""
    return session.rpartition("-")[2]


# An index of a log without parsing it: lists of sessions want five lines of logs that may have a hundred thousand.
# Such bytes are in no text, for JSON escapes the quotes in one. They hold as long as the encoder writes the keys in the
# order of ``Line``: tests/record/test_line.py compares them with what is written, and fails if that order changes.
def line_prefix(kind: type[Event]) -> bytes:
    """The part that every line of an event has in a file, and no text can have: from its type to its first key."""
    first = camel_case(next(name for name in kind.__struct_fields__ if name != "origin"))
    return f', "type": "{kind.type}", "{first}": '.encode()


def beginning_at_root(kind: type[Event], payload: str = "") -> bytes:
    """The same for lines of the root worker; ``payload`` is the beginning of the JSON that follows."""
    return f'"depth": 0, "type": "{kind.type}"{payload}'.encode()


def line_at(data: bytes, place: int) -> Line | None:
    """The line around a place of a log; None where that is not a whole one."""
    end = data.find(b"\n", place) if place >= 0 else -1
    if end < 0:
        return None
    try:
        return Line.read(data[data.rfind(b"\n", 0, place) + 1 : end])
    except BadLine:
        return None
