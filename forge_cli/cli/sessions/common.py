"""Parts that the commands on sessions share: the argument that names one, and its log."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from forge_cli.cli.notices import warn
from forge_cli.core.errors import Mark, WorkerError
from forge_cli.record.log import Log, damage_of, find_session, random_end, read_readable, session_files

NAMED = "by its id, the beginning or the random end of it, or 'last'"


def read_log(name: str) -> Log:
    """The readable part of a session's log; what cannot be read, or is not what was written, is said."""
    log = read_readable(find_session(name))
    if not log.lines:
        raise WorkerError(Mark(str(log.path)), "this is not a session")
    if damage := damage_of(log):
        more = f", and {len(log.bad) - 1} more" if len(log.bad) > 1 else ""
        warn(f"{damage}{more}{'; what can be read follows' if log.bad else ''}")
    if log.dropped:
        warn(f"the last line of the session {log.session} is not finished, and left out")
    return log


def shorten_ids(rows: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """For people on a terminal: the end of each id, where it is enough to name the session."""
    if not sys.stdout.isatty():
        return rows
    ends = Counter(random_end(path.stem) for path in session_files())
    return [{**row, "session": end if ends[end := random_end(row["session"])] == 1 else row["session"]} for row in rows]
