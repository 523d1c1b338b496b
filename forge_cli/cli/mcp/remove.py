"""``forge mcp remove``: a server gone from the user's own config.yaml."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from forge_cli.cli.options import new_app
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.text import did_you_mean, visible
from forge_cli.files.edit import CannotEditError, plan_removal
from forge_cli.files.home import forge_home
from forge_cli.files.settings import load_settings

app = new_app()


@app.command()
def remove(name: Annotated[str, typer.Argument(metavar="NAME", help="A server of your own config.yaml.")]) -> None:
    """Delete an MCP server from your own config.yaml, without asking."""
    known, file = load_settings(forge_home()).mcp.servers, forge_home() / "config.yaml"
    if name not in known:
        there = f"there are: {', '.join(known)}" if known else "there are none"
        raise UsageError(f"{file} has no MCP server '{name}'", hint=did_you_mean(name, known, there))
    try:
        plan_removal(file, ("mcp", "servers", name)).write()
    except CannotEditError as error:
        raise ForgeError(f"{error}; delete mcp.servers.{name} by hand") from None
    sys.stdout.write(visible(f"removed {name} from {file}") + "\n")
