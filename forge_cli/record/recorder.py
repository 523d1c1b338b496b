"""Recording of events, each as one redacted, numbered and chained line of a log."""

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
from forge_cli.record.line import Line, Prove
from forge_cli.record.places import SessionLost, lock_log, unlock_log
from forge_cli.record.proof import Proofs
from forge_cli.sandbox.secrets import Redactor

if TYPE_CHECKING:
    from forge_cli.record.log import Log

DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NEEDS_DISK = frozenset({TurnStart.type, TurnEndEvent.type, SessionEnd.type})


def needs_disk(line: Line) -> bool:
    """Return True if something irreversible follows a line, so that it must be on disk first.

    Such lines are the consent to a call, the request to a model, and the end of a turn or of the
    session. A result reaches the disk with the next of these lines.
    """
    return line.type in _NEEDS_DISK or line.is_consent


class RecordLog:
    """A sink that appends lines to one file, which no other process uses in the meantime."""

    skips_transient: ClassVar[bool] = True
    """True if the sink ignores transient lines."""
    alternative: ClassVar[str] = ""
    """The end of a hint: how to work without a writable log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.proofs = Proofs(path)
        self._file: LineFile | None = None
        self._failure: SessionLost | None = None
        self._lock = lock_log(path)

    @classmethod
    def create(cls, path: Path) -> Self:
        """Create the log of a new session; raise OSError if the home is not writable.

        The file exists once it has a line.
        """
        make_private(path.parent)
        return cls(path)

    @classmethod
    def resume(cls, path: Path) -> tuple[Self, Log]:
        """Open the log of a session and return it with its content.

        The first write removes an unfinished last line; until then nothing changes, because the
        file may be something else. Raise SessionLost if the log is not writable: without it, the
        next resume would repeat the work that follows.
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
        if self._failure is None:
            self._write(line)
        # A session still ends after a failed write, and must not fail again there.
        elif line.type != SessionEnd.type:
            raise self._failure

    def copy(self, lines: Sequence[Line]) -> None:
        """Start with the lines of another session; either all of them are written or none."""
        data = "".join([line.text() for line in lines]).encode()
        try:
            replace_file(self.path, data, mode=0o600)
            self._file = LineFile(self.path)
        except OSError as error:
            raise self._fail(error) from None

    def _write(self, line: Line) -> None:
        try:
            self._file = self._file or self._begin()
            self._file.append(line.text().encode())
        except OSError as error:
            # A session without a line would be listed as damaged.
            if self._file and not self._file.size and not isinstance(error, FileSpoilt):
                self.path.unlink(missing_ok=True)
            raise self._fail(error) from None

    def _begin(self) -> LineFile:
        file = LineFile(self.path)
        if file.size:
            file.close()
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self.path))
        return file

    def sync(self) -> None:
        """Flush all lines to disk."""
        try:
            if self._file and self._file.unsynced:
                self._file.sync()
        except OSError as error:
            raise self._fail(error) from None

    def _fail(self, error: OSError) -> SessionLost:
        """Return the error for a failed write, which every later write raises, too."""
        if isinstance(error, FileSpoilt):
            problem = f"the session's log was {error.what} while it was written: {self.path}"
            hint = "some events are missing from it: check the files before you start again"
        else:
            problem = f"the session's log cannot be written any more: {error.strerror}"
            has_lines = self._file and self._file.size and self.path.exists()
            resume = ""
            if has_lines:
                resume = f" and resume with -r {self.path.stem}"
            hint = f"make room for {self.path}{resume}{self.alternative}"
        self._failure = SessionLost(problem, hint=hint)
        return self._failure

    def close(self) -> None:
        """Close the file and then release the lock.

        A process that waits for the lock must not find a file that is about to be deleted.
        """
        if self._file:
            self._file.close()
        unlock_log(self.path, self._lock)


class SessionLog(RecordLog):
    """The log of a single session, flushed after each line that something irreversible follows."""

    alternative = ", or use --ephemeral"

    def _write(self, line: Line) -> None:
        super()._write(line)
        if needs_disk(line):
            self.sync()


def _not_writable(path: Path, error: OSError) -> SessionLost:
    why = f"its log cannot be written: {os_error_text(error)}"
    problem = f"the session {path.stem} cannot be resumed: {why}"
    remedy = "make it writable, or resume a copy with --fork"
    if error.errno in DISK_FULL:
        remedy = "free some space"
    return SessionLost(problem, hint=f"{remedy}; --ephemeral resumes it without saving the rest")


def os_error_text(error: OSError) -> str:
    """Return the reason of an error, with the file if it names one."""
    if error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error.strerror)


Sink = Callable[[Line], None]
MAX_WAIT = 1.0
"""Seconds that a thread waits for its turn to record before it gives up."""


class Recorder:
    """Turns the events of one session into lines and passes them to its sinks in order."""

    def __init__(
        self,
        *sinks: Sink,
        session: str,
        worker: str,
        depth: int = 0,
        redactor: Redactor,
        after: Line | None = None,
    ) -> None:
        """Make a recorder; ``after`` is the last line of a resumed session."""
        self._sinks = sinks
        self._session = session
        self._worker = worker
        self._depth = depth
        self._redactor = redactor
        self._last = after
        self.shows = not all(getattr(sink, "skips_transient", False) for sink in sinks)
        """True if a sink takes transient events."""
        self._prove: Prove | None = None
        for sink in sinks:
            if isinstance(sink, RecordLog):
                self._prove = sink.proofs.prove
        # Reentrant: a sink may emit an event of its own.
        self._busy = threading.RLock()

    def __call__(self, event: Event) -> None:
        if not self._busy.acquire(timeout=MAX_WAIT):
            raise SessionLost("another thread is blocking the session log")
        try:
            self._take(event)
        finally:
            self._busy.release()

    @property
    def line(self) -> int | None:
        """The number of the last line; None before the first."""
        return self._last.seq if self._last else None

    def take_over(self, events: Iterable[Event]) -> bool:
        """Record the last events before the process ends, from another thread; nothing may follow.

        Return False, and record nothing, if another thread does not stop recording in time.
        """
        if not self._busy.acquire(timeout=MAX_WAIT):
            return False
        # The lock is not released: no thread may write after these events.
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
