"""``forge mcp add|remove``: MCP servers in the user's config.yaml."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from forge_cli.cli.options import new_app
from forge_cli.core.approval import GrantRule
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.text import did_you_mean, visible
from forge_cli.files.edit import CannotEditError, plan_edit, plan_removal
from forge_cli.files.home import forge_home
from forge_cli.files.mcp import McpServers
from forge_cli.files.settings_files import load_settings
from forge_cli.schema.config import parse_config

app = new_app()


@app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name for workers.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- COMMAND ARGS", help="The command that starts the server."),
    ] = None,
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="The URL of a remote server.")
    ] = None,
) -> None:
    """Define an MCP server in your own config.yaml.

    A worker that names it with servers: [NAME] can use it. Nothing is started; try it with forge
    mcp test NAME.
    """
    if (url is None) == (not command):  # neither, or both
        raise UsageError(
            "give either --url URL or -- COMMAND ARGS...",
            hint=f"for example: forge mcp add {name} -- program",
        )
    program, *args = command or [""]
    server: dict[str, Any] = {"url": url} if url else {"command": program}
    if args:
        server["args"] = args
    # only for its errors: an invalid definition must not be written
    parse_config(McpServers, {"servers": {name: server}}, at=("mcp",))
    if name in load_settings(forge_home()).mcp.servers:
        raise UsageError(f"there is a server '{name}' already", hint=f"forge mcp remove {name}")
    place = ("mcp", "servers", name)
    rule = GrantRule(place, server, f"the MCP server {name}", user_at=place)
    file = forge_home() / "config.yaml"
    try:
        plan_edit(file, [rule], user=True).write()
    except CannotEditError as error:
        raise ForgeError(f"{error}; add it by hand: {rule}") from None
    sys.stdout.write(visible(f"added {name} to {file}") + "\n")
    sys.stdout.write(
        visible(f"a worker uses it with toolsets: {{mcp: {{servers: [{name}]}}}}") + "\n"
    )


@app.command()
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A server of your own config.yaml.")],
) -> None:
    """Delete an MCP server from your own config.yaml, without asking."""
    known = load_settings(forge_home()).mcp.servers
    file = forge_home() / "config.yaml"
    if name not in known:
        there = f"there are: {', '.join(known)}" if known else "there are none"
        raise UsageError(
            f"{file} has no MCP server '{name}'", hint=did_you_mean(name, known, there)
        )
    try:
        plan_removal(file, ("mcp", "servers", name)).write()
    except CannotEditError as error:
        raise ForgeError(f"{error}; delete mcp.servers.{name} by hand") from None
    sys.stdout.write(visible(f"removed {name} from {file}") + "\n")
