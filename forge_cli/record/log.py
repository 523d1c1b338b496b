"""Session logs: reading them, finding one by name, and checking that no line was changed."""

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
    """The readable part of a session log."""

    path: Path
    lines: tuple[Line, ...]
    size: int = 0
    """Bytes up to the end of the last complete line."""
    dropped: bool = False
    bad: tuple[BadLine, ...] = ()
    """The lines that forge did not write; the others can be read all the same."""

    @property
    def session(self) -> str:
        return self.path.stem

    def copied(self, session: str) -> tuple[Line, ...]:
        """Return copies of the lines for another session, with a chain of their own."""
        copies = list[Line]()
        for line in self.lines:
            copies.append(line.copied(session, copies[-1] if copies else None))
        return tuple(copies)


def read_session(path: Path) -> Log:
    """Read a log, without an unfinished last line; raise BadLine for any other damage."""
    log = read_readable(path)
    if log.bad:
        raise log.bad[0]
    return log


def read_readable(path: Path) -> Log:
    """Read the intact lines of a log and collect the damaged ones."""
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
            # The last line, which a crash may have left unfinished although it has its newline.
            if number == len(pieces) - 1 and not pieces[-1]:
                break
            bad.append(error)
        size += len(piece) + 1
    return Log(path, tuple(lines), size, dropped=size < len(data), bad=tuple(bad))


def broken_link(log: Log) -> str | None:
    """Return the first break in the hash chain as a sentence, or None if it is intact."""
    broken = _broken(log)
    if broken is None:
        return None
    return f"line {broken[0]}: {broken[1]}"


def damage_of(log: Log) -> str | None:
    """Return the first damage in a log as a sentence with its place, or None if there is none."""
    broken = _broken(log)
    bad = log.bad[0].where if log.bad else None
    if bad and (broken is None or bad.line <= broken[0]):
        return f"{bad}: {log.bad[0].message}"
    if broken is None:
        return None
    return f"{log.path}:{broken[0]}: {broken[1]}"


def missing_line(log: Log) -> str | None:
    """Return the first gap in the sequence numbers as a sentence, or None if no line is missing."""
    if all(line.seq == number for number, line in enumerate(log.lines, 1)):
        return None
    return broken_link(log)


def _broken(log: Log) -> tuple[int, str] | None:
    before: Line | None = None
    for line in log.lines:
        expected = before.seq + 1 if before else 1
        if line.seq != expected:
            return line.where.line, f"sequence number {line.seq}, expected {expected}"
        if line.prev != (before.hash if before else None):
            return line.where.line, "it does not match the hash of the previous line"
        if not line.intact:
            return line.where.line, "it was changed after it was written"
        before = line
    return None


def check_log(read: Log) -> None:
    """Raise WorkerError if a log cannot be resumed: empty, another version, or tampered with."""
    if not read.lines:
        raise WorkerError(None, f"the session {read.session} is empty", hint="start a new one")
    if (version := read.lines[0].version) != VERSION:
        raise WorkerError(
            None,
            f"the session {read.session} has log version {version},"
            " which this version of forge cannot read",
        )
    if problem := broken_link(read):
        hint = f"forge sessions show {read.session} prints its content"
        raise WorkerError(
            None, f"the session {read.session} was tampered with: {problem}", hint=hint
        )


LAST_SESSION = "last"
"""The name of the session that was used last."""
MAX_CANDIDATES = 5
"""The most sessions that are listed for an ambiguous name."""


def session_files() -> list[Path]:
    """Return the logs of all sessions, the most recently used first."""
    return [path for _, path in sorted(files_by_time(), reverse=True)]


def files_by_time() -> list[tuple[int, Path]]:
    """Return the logs that have a line, each with the time of its last write."""
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
        hint = "set FORGE_HOME to choose the folder for sessions"
        raise ForgeError(f"{folder} cannot be read: {error.strerror}", hint=hint) from None
    return found


def find_session(name: str) -> Path:
    """Return the log of a session by its ID, a part of the ID, ``last``, or a path."""
    given = Path(name)
    if given.suffix == SUFFIX and os.path.isfile(given):
        return given
    return find_own_session(name)


def find_record(name: str) -> Path:
    """Return the file of a record, which may have any name, or the log of a session."""
    path = Path(name)
    if os.path.isfile(path):
        return path
    if path.suffix == SUFFIX or os.sep in name:
        raise WorkerError(
            Mark(name),
            "there is no such record",
            hint="create one: forge run WORKER TASK --record FILE",
        )
    return find_session(name)


def find_own_session(name: str) -> Path:
    """Return the log of a session in the home by its ID, a part of it, or ``last``."""
    files = session_files()
    named = _last(files) if name == LAST_SESSION else _named(name, files)
    match named:
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
            ids = "\n  ".join(path.stem for path in several[:MAX_CANDIDATES])
            more = ""
            if len(several) > MAX_CANDIDATES:
                more = f"\n  and {len(several) - MAX_CANDIDATES} more"
            raise WorkerError(
                None,
                f"'{name}' matches {len(several)} sessions; type more of the ID",
                hint=ids + more,
            )


def _last(files: Sequence[Path]) -> list[Path]:
    for path in files:
        if _may_be_session(path):
            return [path]
    return []


def _may_be_session(path: Path) -> bool:
    """Return True if a log has a line, or cannot be read: opening it then reports why."""
    try:
        return bool(read_readable(path).lines)
    except WorkerError:
        return True


def _named(name: str, files: Sequence[Path]) -> list[Path]:
    """Return the sessions that match: by ID, else by its beginning, else by its last part."""
    if not name:
        return []
    ids = {path.stem: path for path in files}
    if name in ids:
        return [ids[name]]
    begin = [path for session, path in ids.items() if session.startswith(name)]
    return begin or [path for session, path in ids.items() if random_end(session) == name]


def random_end(session: str) -> str:
    """Return the part of an ID after the date and time; the whole ID if it has another form."""
    return session.rpartition("-")[2]


# Searching for byte prefixes finds events without parsing a log: lists of sessions need about five
# lines of logs that may have a hundred thousand. No text of a user contains such bytes, because
# JSON escapes the quotes in it. The prefixes depend on the order in which ``Line`` writes its keys;
# tests/record/test_line.py fails if that changes.
def line_prefix(kind: type[Event]) -> bytes:
    """Return the byte prefix that identifies an event of this kind in a log."""
    first = camel_case(next(name for name in kind.__struct_fields__ if name != "origin"))
    return f', "type": "{kind.type}", "{first}": '.encode()


def beginning_at_root(kind: type[Event], payload: str = "") -> bytes:
    """Return the byte prefix of an event of the root worker.

    ``payload`` is the JSON that follows.
    """
    return f'"depth": 0, "type": "{kind.type}"{payload}'.encode()


def line_at(data: bytes, place: int) -> Line | None:
    """Return the line that contains a byte offset of a log, or None if it is incomplete."""
    end = data.find(b"\n", place) if place >= 0 else -1
    if end < 0:
        return None
    try:
        return Line.read(data[data.rfind(b"\n", 0, place) + 1 : end])
    except BadLine:
        return None
