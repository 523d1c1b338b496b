"""The copy of a record in a file of the user, written by ``--record``."""

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
    """A sink of the record that rewrites a file; what stands there now is replaced once the session starts.

    The disk has all of it when the session has ended: until then the log of the session is what a power cut leaves.
    """

    def __init__(self, path: Path, before: Iterable[Line] = ()) -> None:
        """``before`` are the lines that a session which is resumed has already."""
        self._path = path.absolute()
        self._waiting = list(before)
        self._is_begun = False

    def __call__(self, line: Line) -> None:
        if line.transient:
            return
        text = "".join(each.text() for each in (*self._waiting, line))
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
            raise SessionLost(problem, hint="make room for it, or leave --record out") from None
        self._is_begun = True
        self._waiting.clear()


def check_record(path: Path) -> None:
    """A record may be written over a record, and over nothing else."""
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
            f"--record {path}: that file is not a record, and is left as it is",
            hint="name another file",
        )


def _is_start(piece: bytes) -> bool:
    try:
        return Line.read(piece).type == SessionStart.type
    except BadLine:
        return False
