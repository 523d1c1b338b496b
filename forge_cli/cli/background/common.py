"""Shared code of the commands on sessions in the background."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from forge_cli.cli.sessions.common import NAMED
from forge_cli.core.errors import ForgeError, UsageError, WorkerError
from forge_cli.core.text import visible
from forge_cli.record.log import LAST_SESSION, find_session
from forge_cli.record.places import lock_holder, session_file
from forge_cli.record.runs import BackgroundRun, background_run, background_runs

SessionArgument = Annotated[
    str, typer.Argument(metavar="ID", help=f"A session, {NAMED}.", show_default=False)
]
POLL_INTERVAL = 0.05
END_TIMEOUT = 20.0
"""Seconds that a session has to end before it is started again."""


def find_background(name: str) -> Path:
    """Return the log of a session by its name; the log of a starting session does not exist yet."""
    try:
        return find_session(name)
    except WorkerError:
        runs = background_runs()
        if name == LAST_SESSION and runs:
            return session_file(max(runs))
        found = [run for run in runs if run.startswith(name) or run.endswith(f"-{name}")]
        if name and len(found) == 1:
            return session_file(found[0])
        raise


def require_run(path: Path) -> BackgroundRun:
    """Return how a session was started in the background; raise UsageError if it was not."""
    run = background_run(path.stem)
    if run is None:
        raise UsageError(
            f"the session {visible(path.stem)} was not started in the background",
            hint=f'continue it with: forge run WORKER "TASK" -r {path.stem} -b',
        )
    return run


def wait_until_free(path: Path, seconds: float) -> bool:
    """Wait until no process uses a session; return False if one still does."""
    deadline = time.monotonic() + seconds
    while lock_holder(path) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_INTERVAL)
    return True


def not_running(path: Path) -> ForgeError:
    """Return the error for a session that no process works on."""
    return ForgeError(
        f"the session {path.stem} is not running", hint="forge sessions list shows its state"
    )
