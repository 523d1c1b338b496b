"""Commands of packages as Typer has them: a function, or an app that may have several."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command


def as_command(loaded: Any, path: str, app: typer.Typer) -> Any:
    """The command that is called by this path; ``app`` is for one that is a function."""
    name = path.split()[-1]
    if not isinstance(loaded, typer.Typer):
        app.command(name)(loaded)
        loaded = app
    command = get_command(loaded)
    for each in getattr(command, "commands", {}).values():
        each.short_help = each.get_short_help_str(
            200
        )  # Typer would cut them off at the end of a line
    return (
        command.commands.get(name, command)
        if isinstance(command, TyperGroup) and " " in path
        else command
    )
