"""``forge logs``: what a session does, as text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, TextIO

import anyio
import typer

from forge_cli.cli.background.common import SessionArgument, find_background
from forge_cli.cli.options import new_app
from forge_cli.cli.output import data_output
from forge_cli.core.bus import EventBus
from forge_cli.core.text import readable
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.process.signals import in_loop
from forge_cli.record.places import lock_holder
from forge_cli.record.runs import background_run
from forge_cli.ui.terminal.follow import FollowUI, LogTail, event_of

app = new_app()

POLL_INTERVAL = 0.2
"""Seconds between two looks at the log."""


@app.command()
def logs(
    session: SessionArgument,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Print what comes until the session ends.")
    ] = False,
) -> None:
    """Print what a session has done so far, also while it runs."""
    path = find_background(session)
    run = background_run(path.stem)
    if not path.exists() and run and run.output.exists() and not follow:
        sys.stdout.write(readable(run.output.read_text("utf-8", "replace")))
        return
    with data_output() as out:
        in_loop(_print, path, out, follow)


async def _print(path: Path, out: TextIO, follow: bool) -> None:
    bus = EventBus()
    tail = LogTail(path)
    screen = FollowUI(
        bus,
        output=out,
        trace="normal",
        trace_output=out,
        stream_text=False,
        interactive=False,
        find=PluginHost().renderer,
    )
    async with screen:
        while True:
            # Asked before the lines are read, so that none of the last ones is missed.
            runs = lock_holder(path) is not None
            for line in tail.read():
                event = event_of(line)
                if event is not None:
                    bus.emit(event)
            out.flush()
            if not (follow and runs):
                return
            await anyio.sleep(POLL_INTERVAL)
