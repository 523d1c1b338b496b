"""Logs for people to look at: what can be read of one, and whether every line is the one that was written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.events import VERSION
from forge_cli.record.log import (
    Log,
    broken_link,
    damage_of,
    read_readable,
    read_session,
    session_files,
)


def read_log(path: Path, warn: Callable[[str], None]) -> Log:
    """The readable part of a session's log; what cannot be read, or is not what was written, is told."""
    log = read_readable(path)
    if not log.lines:
        hint = "no line of it can be read; forge sessions list shows the others"
        raise WorkerError(Mark(str(log.path)), "this is not a session", hint=hint)
    if (version := log.lines[0].version) != VERSION:
        warn(
            f"the session {log.session} is of version {version}; what this forge can read of it follows"
        )
    if damage := damage_of(log):
        more = f", and {len(log.bad) - 1} more" if len(log.bad) > 1 else ""
        warn(f"{damage}{more}{'; what can be read follows' if log.bad else ''}")
    if log.dropped:
        warn(f"the last line of the session {log.session} is not finished, and left out")
    return log


def every_log(warn: Callable[[str], None]) -> Iterator[Log]:
    """The readable part of every session, the oldest first; one of which nothing can be read is told, and left out."""
    for path in reversed(session_files()):
        try:
            yield read_log(path, warn)
        except WorkerError as error:
            warn(f"{str(error).partition(chr(10))[0]}; it is left out")


def verify_session(path: Path) -> dict[str, Any]:
    try:
        log = read_session(path)
    except WorkerError as error:
        place = f"line {error.where.line}: " if error.where else ""
        return {"session": path.stem, "ok": False, "problem": f"{place}{error.message}"}
    problem = broken_link(log)
    return {
        "session": log.session,
        "ok": problem is None,
        "problem": problem,
        "lines": len(log.lines),
        "unfinished": log.dropped,
    }


def verdict_sentence(row: dict[str, Any]) -> str:
    if not row["ok"]:
        return f"{row['session']}: {row['problem']}"
    half = ", and an unfinished one at the end, which does not count" if row["unfinished"] else ""
    return f"{row['session']}: ok, {row['lines']} lines{half}"
