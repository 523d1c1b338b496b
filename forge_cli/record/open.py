"""Opening a session to work on: a new one, a resumed one, or a fork; locked and checked."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from forge_cli.core.errors import UsageError
from forge_cli.files.home import TRIALS
from forge_cli.files.replace import sweep_folder
from forge_cli.files.worker import Worker
from forge_cli.record.line import Line
from forge_cli.record.places import SessionLost, new_session_id, session_file, sessions_folder
from forge_cli.record.recorder import DISK_FULL, RecordLog, SessionLog, Sink, os_error_text

if TYPE_CHECKING:
    from forge_cli.record.changes import ChangeLog
    from forge_cli.record.log import Log
    from forge_cli.record.resume import Resumed

Warn = Callable[[str], None]


@dataclass(frozen=True)
class OpenSession:
    """A session to work on, for ``WorkerRuntime(session=...)``.

    Without a log, nothing is recorded.
    """

    id: str
    log: RecordLog | None = None
    resumed: Resumed | None = None
    lines: tuple[Line, ...] = ()
    """The earlier lines of a resumed session."""
    backups: Path | None = None
    """A path beside which changed files are backed up; by default that of the log."""

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """The receivers of each line: the log, if there is one."""
        return (self.log,) if self.log else ()

    def close_log(self) -> None:
        """Close the log, from any thread; nothing more is written to it."""
        if self.log:
            self.log.close()

    @property
    def open_changes(self) -> Callable[[], ChangeLog] | None:
        """A function that opens the backups of changed files; None without a log."""
        if self.log is None:
            return None
        return lambda: self._changes

    @cached_property
    def _changes(self) -> ChangeLog:
        from forge_cli.record.changes import ChangeLog

        # Only ``open_changes`` calls this, and only if there is a log.
        return ChangeLog(self.backups or cast(RecordLog, self.log).path)


@contextmanager
def open_session(
    worker: Worker,
    *,
    resume: str | None = None,
    last: bool = False,
    fork: bool = False,
    keep: bool = True,
    workspace: Path | None = None,
    task: str | None = None,
    warn: Warn = lambda sentence: None,
    new_id: str | None = None,
) -> Iterator[OpenSession]:
    """Open a session of a worker, locked for as long as the ``with`` block runs.

    Without ``resume`` and ``last``, it is a new session. ``resume`` names one by its ID, the
    beginning or the random end of the ID, or the path of a log. ``last`` means the last session of
    this worker in ``workspace``. With ``fork``, a copy is resumed and the session stays unchanged.
    If ``keep`` is False, nothing is written. An empty ``task`` requires unfinished work. ``warn``
    gets sentences about problems that do not stop the session, such as a home that is not writable.
    A resumed session needs a writable log. ``new_id`` is the ID of a new session or copy.
    """
    if keep:
        # Nothing else removes the temporary files of killed processes.
        sweep_folder(sessions_folder())
        if has_trials():
            # Code for earlier sessions is loaded only if it is needed, since most sessions are new.
            from forge_cli.record.leftovers import drop_all_unfinished

            drop_all_unfinished()
    with ExitStack() as stack:
        if resume is None and not last:
            yield _new(stack, keep, warn, new_id)
            return
        folder = (workspace or Path.cwd()).resolve()
        if resume is not None:
            from forge_cli.record.log import find_session

            path = find_session(resume)
        else:
            from forge_cli.record.overview import last_session

            path = last_session(worker, folder, warn)
        read, log = _reopened(path, keep and not fork, stack)
        from forge_cli.record.log import check_log

        check_log(read)
        if (name := read.lines[0].worker) != worker.name:
            raise UsageError(
                f"session {read.session} belongs to worker '{name}', not '{worker.name}'"
            )
        if read.dropped:
            warn(f"dropped the unfinished last line of the session {read.session}")
        from forge_cli.record.resume import resume_of

        resumed = resume_of(read, log)
        if task == "" and not resumed.past.unfinished:
            hint = 'say what to do next: forge run WORKER -r ID "TASK"'
            raise UsageError(f"the session {read.session} has nothing left to do", hint=hint)
        if fork:
            yield _forked(read, resumed, _new(stack, keep, new_id=new_id))
        else:
            yield OpenSession(read.session, log, resumed, read.lines)


def has_trials() -> bool:
    """Return True if a session has a folder of trials.

    If none has, the code for trials is not loaded.
    """
    try:
        return any(name.endswith(TRIALS) for name in os.listdir(sessions_folder()))
    except OSError:
        return False


def _new(
    stack: ExitStack, keep: bool, warn: Warn | None = None, new_id: str | None = None
) -> OpenSession:
    """Create a session; without ``warn`` it must have a log."""
    session = new_id or new_session_id()
    if not keep:
        return OpenSession(session)
    try:
        return OpenSession(session, stack.enter_context(SessionLog.create(session_file(session))))
    except OSError as error:
        if warn is None or error.errno in DISK_FULL:
            remedy = "make it writable"
            if error.errno in DISK_FULL:
                remedy = "free some space"
            raise SessionLost(
                f"the session cannot be saved: {os_error_text(error)}",
                hint=f"{remedy}, or use --ephemeral",
            ) from None
        warn(f"this session will not be saved: {os_error_text(error)}")
        return OpenSession(session)


def _reopened(path: Path, keep: bool, stack: ExitStack) -> tuple[Log, SessionLog | None]:
    if not keep:
        from forge_cli.record.log import read_session

        return read_session(path), None
    log, read = SessionLog.resume(path)
    stack.enter_context(log)
    if path.with_suffix(TRIALS).exists():
        from forge_cli.record.leftovers import drop_unfinished

        drop_unfinished(path)
    return read, log


def _forked(read: Log, resumed: Resumed, session: OpenSession) -> OpenSession:
    lines = read.copied(session.id)
    if session.log:
        session.log.copy(lines)
    return dataclasses.replace(
        session, resumed=replace(resumed, last=lines[-1], forked_from=read.session), lines=lines
    )
