"""Logs for display: reading whatever is intact, and reporting damage."""

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
    """Return the readable part of a log, and pass a sentence about any damage to ``warn``."""
    log = read_readable(path)
    if not log.lines:
        hint = "none of its lines can be read; forge sessions list shows other sessions"
        raise WorkerError(Mark(str(log.path)), "not a session log", hint=hint)
    if (version := log.lines[0].version) != VERSION:
        warn(
            f"the session {log.session} has log version {version};"
            " showing what this version of forge can read"
        )
    if damage := damage_of(log):
        if len(log.bad) > 1:
            damage += f", and {len(log.bad) - 1} more damaged lines"
        if log.bad:
            damage += "; showing the readable lines"
        warn(damage)
    if log.dropped:
        warn(f"omitted the unfinished last line of the session {log.session}")
    return log


def every_log(warn: Callable[[str], None]) -> Iterator[Log]:
    """Yield the readable part of every session, the oldest first.

    Pass a sentence about each unreadable one to ``warn``.
    """
    for path in reversed(session_files()):
        try:
            yield read_log(path, warn)
        except WorkerError as error:
            warn(f"{str(error).partition(chr(10))[0]}; skipped")


def verify_session(path: Path) -> dict[str, Any]:
    """Return a row of ``forge sessions verify``."""
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
    """Return a row of ``forge sessions verify`` as a sentence."""
    if not row["ok"]:
        return f"{row['session']}: {row['problem']}"
    sentence = f"{row['session']}: ok, {row['lines']} lines"
    if row["unfinished"]:
        sentence += ", ignoring an unfinished last one"
    return sentence
