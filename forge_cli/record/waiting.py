"""The requests of all sessions that wait for an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from forge_cli.core.errors import ForgeError
from forge_cli.record.log import read_session
from forge_cli.record.open import check_log
from forge_cli.record.overview import Overview, SessionIndex
from forge_cli.record.pending import Waiting, may_be_asking, open_requests, requests_of
from forge_cli.record.proof import Proofs


def waiting_requests(warn: Callable[[str], None]) -> list[tuple[Path, Waiting]]:
    """The requests of all sessions, each with its log.

    A session that cannot be resumed has none that could be answered, and that is said.
    """
    with SessionIndex() as index:
        found = [(path, seen.pid) for path, seen in index.readable() if _may_wait(path, seen)]
    return [(path, waiting) for path, pid in found for waiting in _requests(path, pid, warn)]


def _may_wait(path: Path, seen: Overview) -> bool:
    """Could it be waiting for an answer, parked or at work?"""
    return may_be_asking(path) if seen.pid else seen.waits


def _requests(path: Path, pid: int | None, warn: Callable[[str], None]) -> list[Waiting]:
    try:
        log = read_session(path)
        check_log(log)
        if pid:
            return [replace(each, pid=pid) for each in open_requests(log.lines)]
        return requests_of(log.lines, Proofs(path).unproven(log.lines))
    except ForgeError as error:
        warn(str(error).partition("\n")[0])
        return []
