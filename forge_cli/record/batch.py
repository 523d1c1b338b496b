"""The sessions of a batch: many are open at once, and no item waits for the log of another."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anyio import CancelScope, Lock, to_thread

from forge_cli.core.actions import ApprovalResponse
from forge_cli.core.events import SessionEnd
from forge_cli.record.line import Line
from forge_cli.record.log import Log, check_log, read_session
from forge_cli.record.open import OpenSession
from forge_cli.record.pending import requests_of
from forge_cli.record.places import SessionLost, session_file
from forge_cli.record.proof import Proofs
from forge_cli.record.recorder import RecordLog, os_error_text
from forge_cli.record.resume import resume_of


class BatchLog(RecordLog):
    """The log of a batch item, which is flushed to disk in a thread while other items work.

    The item waits for the disk before a call that needs consent, and at its end. After a power cut
    the model may repeat a lost turn, but no call is made twice.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._flushing = Lock()

    async def keep(self) -> None:
        """Flush the log to disk in a thread."""
        async with self._flushing:
            with CancelScope(shield=True):
                await to_thread.run_sync(self.sync)


@contextmanager
def open_item_session(
    session: str, key: bytes | None = None
) -> Iterator[tuple[OpenSession, BatchLog]]:
    """Resume the session of a batch item, given by its full ID, or create it if it has no lines.

    There is no session without a log here, and other sessions are not read. ``key`` is the key of
    the proofs if the log belongs to another user's forge.
    """
    path = session_file(session)
    try:
        if log_exists(path):
            log, read = BatchLog.resume(path)
        else:
            log = BatchLog.create(path)
            read = Log(path, ())
    except OSError as error:
        raise SessionLost(f"the session cannot be saved: {os_error_text(error)}") from None
    log.proofs.given = key
    with log:
        if not read.lines:
            yield OpenSession(session, log), log
            return
        check_log(read)
        yield OpenSession(session, log, resume_of(read, log), read.lines), log


def result_so_far(lines: Sequence[Line]) -> Mapping[str, Any] | None:
    """Return the result of a session, or None if anything but an answer came after its end."""
    for line in reversed(lines):
        if line.type == SessionEnd.type:
            if isinstance(line.event, SessionEnd):
                return line.event.result
            return None
        if line.type != ApprovalResponse.type:
            return None
    return None


def is_answered(session: str) -> bool:
    """Return True if every request of a parked session has an answer, or the session is gone."""
    path = session_file(session)
    if not log_exists(path):
        return True
    read = read_session(path)
    waiting = requests_of(read.lines, Proofs(path).unproven(read.lines))
    return all(each.answer is not None for each in waiting)


def log_exists(log: Path) -> bool:
    """Return True if a log exists; raise OSError if that cannot be determined."""
    try:
        os.stat(log)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
