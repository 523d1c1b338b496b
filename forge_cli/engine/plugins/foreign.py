"""Commands of packages, which may be functions or Typer apps."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command


def as_command(loaded: Any, path: str, app: typer.Typer) -> Any:
    """Return the command with this path; ``app`` takes one that is a function."""
    name = path.split()[-1]
    if not isinstance(loaded, typer.Typer):
        app.command(name)(loaded)
        loaded = app
    command = get_command(loaded)
    for each in getattr(command, "commands", {}).values():
        each.short_help = each.get_short_help_str(200)  # Typer would cut it at the end of a line
    if isinstance(command, TyperGroup) and " " in path:
        return command.commands.get(name, command)
    return command
