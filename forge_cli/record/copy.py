"""The copy of a record in a file of the user, written by ``--record``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from forge_cli.core.errors import UsageError
from forge_cli.core.events import SessionStart
from forge_cli.record.line import BadLine, Line
from forge_cli.record.places import SessionLost
from forge_cli.record.target import check_target


class RecordCopy:
    """A sink of the record that rewrites a file; what stands there now is replaced once the session starts."""

    def __init__(self, path: Path, before: Iterable[Line] = ()) -> None:
        """``before`` are the lines that a session which is resumed has already."""
        self._path, self._waiting = path.absolute(), list(before)
        self._mode: Literal["w", "a"] = "w"

    def __call__(self, line: Line) -> None:
        if line.transient:
            return
        lines = [each.text() for each in (*self._waiting, line)]
        try:
            with open(self._path, self._mode, encoding="utf-8", newline="\n") as stream:
                stream.writelines(lines)
        except OSError as error:
            problem = f"--record {self._path}: the record cannot be written: {error.strerror}"
            raise SessionLost(problem, hint="make room for it, or leave --record out") from None
        self._mode = "a"
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
        raise UsageError(f"--record {path}: that file is not a record, and is left as it is", hint="name another file")


def _is_start(piece: bytes) -> bool:
    try:
        return Line.read(piece).type == SessionStart.type
    except BadLine:
        return False
