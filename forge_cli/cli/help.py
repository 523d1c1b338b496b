"""``forge help``: the same as ``--help``."""

from __future__ import annotations

from typing import Annotated

import typer

from forge_cli.cli.commands import dispatch
from forge_cli.cli.options import new_app

app = new_app()


@app.command("help")
def show_help(
    context: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="A command, such as run or tools call."),
    ] = None,
) -> None:
    """Show the help of a command, or of forge."""
    raise typer.Exit(dispatch([*(command or ()), "--help"], context.obj))
