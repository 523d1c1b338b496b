"""``forge stop``: ends a session that runs in the background."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from forge_cli.cli.background.common import (
    SessionArgument,
    find_background,
    not_running,
    wait_until_free,
)
from forge_cli.cli.options import new_app
from forge_cli.core.actions import Interrupt
from forge_cli.core.errors import ForgeError
from forge_cli.record.control_client import ControlClient, NotListening
from forge_cli.record.places import lock_holder
from forge_cli.record.runs import background_run

app = new_app()

STOP_TIMEOUT = 20.0
"""Seconds that the session has to stop its call and to write its end."""
KILL_AFTER = 2.0
"""Seconds after which a process that ignores signals is killed."""
REASON = "stopped by forge stop"


@app.command()
def stop(
    session: SessionArgument,
    now: Annotated[
        bool, typer.Option("--now", help="End the process at once; the session can be resumed.")
    ] = False,
) -> None:
    """Stop a session, which can be resumed."""
    path = find_background(session)
    pid = lock_holder(path)
    if pid is None:
        raise not_running(path)
    if run := background_run(path.stem):
        replace(run, stopped=True).write()
    if now:
        _end_now(path, pid)
    elif not _interrupt(path):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    if not wait_until_free(path, STOP_TIMEOUT):
        raise ForgeError(
            f"process {pid} of the session {path.stem} has not ended yet",
            hint=f"forge stop {path.stem} --now ends it without waiting",
        )
    sys.stdout.write(f"stopped {path.stem}\n")


def _interrupt(path: Path) -> bool:
    """Let the session end in order; return False if only a signal can do that."""
    if background_run(path.stem) is None:
        return False  # at a terminal an interrupt ends the turn, and not the session
    try:
        with ControlClient(path) as client:
            receipt = client.send(Interrupt(REASON))
    except NotListening:
        return False
    return receipt is None or receipt.counted


def _end_now(path: Path, pid: int) -> None:
    """End the process as two signals within a second do, and else kill it."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        time.sleep(0.1)
        os.kill(pid, signal.SIGTERM)
        if not wait_until_free(path, KILL_AFTER) and lock_holder(path) == pid:
            os.kill(pid, signal.SIGKILL)
