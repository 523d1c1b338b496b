"""The calls of all past sessions, by the worker that made them and the folder that it worked in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from forge_cli.core.errors import ForgeError
from forge_cli.record.calls import PastCall, calls_of
from forge_cli.record.log import read_session, session_files
from forge_cli.record.open import check_log
from forge_cli.record.state import fold


@dataclass(frozen=True)
class PastWork:
    """What one worker called in a session: the root, or a child worker, which has no file on record."""

    worker: str
    root_file: str | None
    """The file of the worker that the session was started with."""
    is_root: bool
    workspace: str
    time: str
    """Of the last line of the session."""
    calls: tuple[PastCall, ...]


def past_work(warn: Callable[[str], None]) -> Iterator[PastWork]:
    """The work of every session, the last first; one that was damaged or tampered with is told, and left out."""
    for path in session_files():
        try:
            log = read_session(path)
            check_log(log)
            state = fold(log.lines)
            for task, worker in state.workers.items():
                calls = tuple(calls_of(state, task))
                if (start := state.start) and calls:
                    ended = log.lines[-1].time
                    yield PastWork(worker.name, start.worker_file, task is None, start.workspace, ended, calls)
        except ForgeError as error:
            warn(str(error).partition("\n")[0])
