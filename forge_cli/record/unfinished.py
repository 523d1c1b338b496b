"""Sessions in the background that no process works on, although there is work left."""

from __future__ import annotations

from forge_cli.core.errors import ForgeError
from forge_cli.core.events import SessionEnd
from forge_cli.record.log import check_log, read_session
from forge_cli.record.overview import read_overview
from forge_cli.record.pending import requests_of
from forge_cli.record.places import lock_holder
from forge_cli.record.proof import Proofs
from forge_cli.record.runs import BackgroundRun, WaitingMessages


def is_unfinished(run: BackgroundRun) -> bool:
    """Return True if a session was cut off, was answered since, or has waiting messages."""
    if run.stopped or lock_holder(run.log) is not None or not run.log.exists():
        return False
    try:
        status = read_overview(run.log).status
        if status == "interrupted":
            return was_cut_off(run)
        return bool(WaitingMessages(run.session).all()) or (status == "parked" and is_answered(run))
    except ForgeError:
        return False


def was_cut_off(run: BackgroundRun) -> bool:
    """Return True if the session has no end, because its process was killed."""
    lines = read_session(run.log).lines
    return bool(lines) and lines[-1].type != SessionEnd.type


def is_answered(run: BackgroundRun) -> bool:
    """Return True if every request of a parked session has an answer."""
    log = read_session(run.log)
    check_log(log)
    waiting = requests_of(log.lines, Proofs(run.log).unproven(log.lines))
    return bool(waiting) and all(each.answer is not None for each in waiting)
