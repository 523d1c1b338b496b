"""The sessions of a batch: many are worked on at once, each with a log that no other item waits for."""

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
from forge_cli.record.recorder import RecordLog, what_failed
from forge_cli.record.resume import resume_of


class BatchLog(RecordLog):
    """The log of an item of a batch: the item waits for the disk before it acts on a line, and no other item does.

    That is where a call may follow, and at the end of the item. After a power cut the model may take a turn again that
    was lost, but no call is made twice.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._keeping = Lock()

    async def keep(self) -> None:
        """The same as ``sync`` in a thread, while others work."""
        async with self._keeping:
            with CancelScope(shield=True):
                await to_thread.run_sync(self.sync)


@contextmanager
def open_item_session(
    session: str, key: bytes | None = None
) -> Iterator[tuple[OpenSession, BatchLog]]:
    """The session of an item of a batch, by its whole id: resumed where its log has lines, else a new one.

    Other sessions are not looked at, and nothing is done without a log. ``key`` is that of somebody else's log.
    """
    path = session_file(session)
    try:
        log, read = (
            BatchLog.resume(path) if is_there(path) else (BatchLog.create(path), Log(path, ()))
        )
    except OSError as error:
        raise SessionLost(f"the session cannot be kept: {what_failed(error)}") from None
    log.proofs.given = key
    with log:
        if not read.lines:
            yield OpenSession(session, log), log
            return
        check_log(read)
        yield OpenSession(session, log, resume_of(read, log), read.lines), log


def result_so_far(lines: Sequence[Line]) -> Mapping[str, Any] | None:
    """How a session ended last, where nothing but answers came after its end."""
    for line in reversed(lines):
        if line.type == SessionEnd.type:
            return line.event.result if isinstance(line.event, SessionEnd) else None
        if line.type != ApprovalResponse.type:
            return None
    return None


def is_answered(session: str) -> bool:
    """Has a parked session got an answer to everything that it waits for? One that is gone waits for nothing."""
    path = session_file(session)
    if not is_there(path):
        return True
    read = read_session(path)
    waiting = requests_of(read.lines, Proofs(path).unproven(read.lines))
    return all(each.answer is not None for each in waiting)


def is_there(log: Path) -> bool:
    """Has a session got its log? An OSError where that cannot be told."""
    try:
        os.stat(log)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
