"""The record: each event is one redacted, numbered, hash-chained line, on the disk before it is acted upon."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from forge_cli.core.events import Event, SessionEnd, TurnEndEvent, TurnStart
from forge_cli.files.home import make_private
from forge_cli.files.lock import FileSpoilt, LineFile
from forge_cli.files.replace import replace_file
from forge_cli.record.line import Line
from forge_cli.record.places import SessionLost, lock_log, unlock_log
from forge_cli.record.proof import Proofs
from forge_cli.sandbox.secrets import Redactor

if TYPE_CHECKING:
    from forge_cli.record.log import Log

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_ACTED_UPON = frozenset({TurnStart.type, TurnEndEvent.type, SessionEnd.type})


def is_acted_upon(line: Line) -> bool:
    """Does something follow from a line that cannot be taken back? Then it is to be on the disk first.

    These are the consent to a call before the call is made, the request to a model, the end of a turn and that of the
    session. A result is acted upon by the next request or the next approved call, whose line brings it along.
    """
    return line.type in _ACTED_UPON or line.is_consent


class RecordLog:
    """A sink of the record that appends to one file, which no other process works on meanwhile."""

    only_keeps: ClassVar[bool] = True
    """It takes no transient lines."""
    without_it: ClassVar[str] = ""
    """How to work where no log can be written, as the end of a hint."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.proofs = Proofs(path)
        self._file: LineFile | None = None
        self._lost: SessionLost | None = None
        self._lock = lock_log(path)

    @classmethod
    def create(cls, path: Path) -> Self:
        """The log of a new session, which is there once it has a line; an OSError when the home cannot be written."""
        make_private(path.parent)
        return cls(path)

    @classmethod
    def resume(cls, path: Path) -> tuple[Self, Log]:
        """The log of a session to be resumed, and what it holds; half a line at its end goes with the first write.

        Until then nothing is changed: it may turn out to be another file altogether. One that cannot be written is
        not resumed, for what is done without a log is done again the next time.
        """
        try:
            log = cls(path)
        except OSError as error:
            raise _not_writable(path, error) from None
        try:
            from forge_cli.record.log import read_session

            read = read_session(path)
            log._file = LineFile(path, read.size)
        except OSError as error:
            log.close()
            raise _not_writable(path, error) from None
        except BaseException:
            log.close()
            raise
        return log, read

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __call__(self, line: Line) -> None:
        if line.transient:
            return
        if self._lost is None:
            self._write(line)
        elif line.type != SessionEnd.type:
            raise self._lost

    def copy(self, lines: Sequence[Line]) -> None:
        """Start with the lines of another session; all of them, or there is no session."""
        data = "".join([line.text() for line in lines]).encode()
        try:
            replace_file(self.path, data, mode=0o600)
            self._file = LineFile(self.path)
        except OSError as error:
            raise self._lose(error) from None

    def _write(self, line: Line) -> None:
        try:
            self._file = self._file or self._begin()
            self._file.append(line.text().encode())
        except OSError as error:
            if self._file and not self._file.size and not isinstance(error, FileSpoilt):
                self.path.unlink(missing_ok=True)
            raise self._lose(error) from None

    def _begin(self) -> LineFile:
        file = LineFile(self.path)
        if file.size:
            file.close()
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self.path))
        return file

    def sync(self) -> None:
        """Wait until all lines are on the disk."""
        try:
            if self._file and self._file.unsynced:
                self._file.sync()
        except OSError as error:
            raise self._lose(error) from None

    def _lose(self, error: OSError) -> SessionLost:
        """Write nothing any more."""
        if isinstance(error, FileSpoilt):
            problem = f"the session's log was {error.what} while it was written: {self.path}"
            hint = "not everything that was done stands in it: look what there is before you start again"
        else:
            problem = f"the session's log cannot be written any more: {error.strerror}"
            has_lines = self._file and self._file.size and self.path.exists()
            resume = f" and resume with -r {self.path.stem}" if has_lines else ""
            hint = f"make room for {self.path}{resume}{self.without_it}"
        self._lost = SessionLost(problem, hint=hint)
        return self._lost

    def close(self) -> None:
        """Let go of the file, and of the lock last: who waits for it must not find a file that is about to go."""
        if self._file:
            self._file.close()
        unlock_log(self.path, self._lock)


class SessionLog(RecordLog):
    """The log of a session that is worked on by itself: it waits for the disk where a line is acted upon."""

    without_it = ", or use --ephemeral"

    def _write(self, line: Line) -> None:
        super()._write(line)
        if is_acted_upon(line):
            self.sync()


def _not_writable(path: Path, error: OSError) -> SessionLost:
    problem = f"the session {path.stem} cannot be resumed: its log cannot be written: {what_failed(error)}"
    room = (
        "make room for it"
        if error.errno in FULL
        else "make it writable, or resume a copy with --fork"
    )
    return SessionLost(problem, hint=f"{room}; --ephemeral resumes it without keeping what follows")


def what_failed(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)


Sink = Callable[[Line], None]
WAIT = 1.0
"""Seconds after which a thread that records does not let go any more."""


class Recorder:
    """Turns the events of one session into lines and hands them to its sinks, in order."""

    def __init__(
        self,
        *sinks: Sink,
        session: str,
        worker: str,
        depth: int = 0,
        redactor: Redactor,
        after: Line | None = None,
    ) -> None:
        """``after`` is the last line of a session that is resumed."""
        self._sinks, self._session, self._worker, self._depth = sinks, session, worker, depth
        self._redactor = redactor
        self._last = after
        self.shows = not all(getattr(sink, "only_keeps", False) for sink in sinks)
        """Does a sink take what is sent only?"""
        self._prove = next(
            (sink.proofs.prove for sink in sinks if isinstance(sink, RecordLog)), None
        )
        """Proves the consent in the log, where there is one."""
        self._busy = threading.RLock()

    def __call__(self, event: Event) -> None:
        if not self._busy.acquire(timeout=WAIT):
            raise SessionLost("the record is held up by another thread")
        try:
            self._take(event)
        finally:
            self._busy.release()

    def take_over(self, events: Iterable[Event]) -> bool:
        """Record these from another thread and let nothing be recorded after them, since the process is to end.

        False when the thread that works does not let go in time: then nothing was recorded.
        """
        if not self._busy.acquire(timeout=WAIT):
            return False
        for event in events:
            self._take(event)
        return True

    def _take(self, event: Event) -> None:
        if event.transient and not self.shows:
            return
        line = Line.of(
            event,
            session=self._session,
            worker=self._worker,
            depth=self._depth,
            redactor=self._redactor,
            after=self._last,
            prove=self._prove,
        )
        if not line.transient:
            self._last = line
        for sink in self._sinks:
            sink(line)
