"""The copy of a session log that ``--record`` writes to a file of the user."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from forge_cli.core.errors import UsageError
from forge_cli.core.events import SessionEnd, SessionStart
from forge_cli.files.replace import append_durably
from forge_cli.record.line import BadLine, Line
from forge_cli.record.places import SessionLost
from forge_cli.record.target import check_target, write_target


class RecordCopy:
    """A sink that replaces a file with the log once the session starts, then appends to it.

    The file is flushed to disk when the session ends. After a power cut before
    that, only the log of the session is complete.
    """

    def __init__(self, path: Path, before: Iterable[Line] = ()) -> None:
        """Make a sink; ``before`` are the lines that a resumed session already has."""
        self._path = path.absolute()
        self._unwritten = list(before)
        self._is_begun = False

    def __call__(self, line: Line) -> None:
        if line.transient:
            return
        text = "".join(each.text() for each in (*self._unwritten, line))
        try:
            if not self._is_begun:
                write_target(self._path, text)
            elif line.type == SessionEnd.type:
                append_durably(self._path, text)
            else:
                with open(self._path, "a", encoding="utf-8", newline="\n") as stream:
                    stream.write(text)
        except OSError as error:
            problem = f"--record {self._path}: the record cannot be written: {error.strerror}"
            raise SessionLost(problem, hint="free some space, or omit --record") from None
        self._is_begun = True
        self._unwritten.clear()


def check_record(path: Path) -> None:
    """Raise UsageError if the file exists and is not a record, or cannot be written."""
    check_target("--record", path, regular=True)
    try:
        with open(path, "rb") as stream:
            first = stream.readline()
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"--record {path}: {error.strerror}") from None
    if first and not _is_start(first):
        raise UsageError(
            f"--record {path}: the file exists and is not a record",
            hint="name another file",
        )


def _is_start(piece: bytes) -> bool:
    try:
        return Line.read(piece).type == SessionStart.type
    except BadLine:
        return False
