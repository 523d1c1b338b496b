"""``forge sessions resume``: starts sessions in the background again."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from forge_cli.cli.background.common import find_background, require_run
from forge_cli.cli.background.start import start_again
from forge_cli.cli.notices import warn
from forge_cli.cli.options import new_app
from forge_cli.cli.sessions.common import NAMED
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.record.runs import BackgroundRun, background_runs
from forge_cli.record.unfinished import is_unfinished

app = new_app()


@app.command()
def resume(
    sessions: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help=f"Sessions, each {NAMED}.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="All that were cut off, or answered since.")
    ] = False,
) -> None:
    """Start sessions in the background again that were cut off, such as by a reboot."""
    if bool(sessions) == every:
        raise UsageError("name sessions, or all with --all; not both")
    chosen: list[BackgroundRun] = []
    if every:
        chosen = [run for _, run in sorted(background_runs().items()) if is_unfinished(run)]
        if not chosen:
            sys.stderr.write("no session in the background was cut off\n")
    else:
        chosen = [require_run(find_background(name)) for name in sessions or ()]
    failed: list[ForgeError] = []
    for run in chosen:
        try:
            start_again(run)
        except ForgeError as error:
            warn(f"{run.session}: {error}")
            failed.append(error)
        else:
            sys.stdout.write(f"{run.session}\n")
    if failed:
        raise typer.Exit(int(failed[0].exit_code))
