"""The log of a session as it can be read: its lines, and whether they are those that were written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.events import VERSION
from forge_cli.files.places import cannot_read
from forge_cli.files.regular import read_regular
from forge_cli.record.line import BadLine, Line


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


def check_log(read: Log) -> None:
    """Refuse to resume a log that is not what forge wrote."""
    if not read.lines:
        raise WorkerError(None, f"the session {read.session} is empty", hint="start a new one")
    if (version := read.lines[0].version) != VERSION:
        raise WorkerError(None, f"the session {read.session} is of version {version}, which this forge cannot read")
    if problem := broken_link(read):
        hint = f"forge sessions show {read.session} shows what it says"
        raise WorkerError(None, f"the session {read.session} was tampered with: {problem}", hint=hint)
