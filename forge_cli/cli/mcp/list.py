"""``forge mcp list``: the user's MCP servers, or those that a worker names."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from forge_cli.cli.find_worker import find_worker
from forge_cli.cli.options import JsonOption, new_app
from forge_cli.core.text import local_time
from forge_cli.files.home import forge_home
from forge_cli.files.mcp import McpServer
from forge_cli.files.mcp_project import ProjectServers, project_servers
from forge_cli.files.settings_files import load_settings
from forge_cli.files.worker import load_worker
from forge_cli.inspection.named_servers import describe_confined, named_servers
from forge_cli.toolsets.mcp.offer import KeptOffer
from forge_cli.ui.table import Column, print_json, print_table

app = new_app()


@app.command("list")
def list_servers(
    worker: Annotated[
        str | None,
        typer.Argument(metavar="WORKER", help="The worker whose servers to list."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List MCP servers, without starting any.

    Without WORKER, lists the servers in your own config.yaml. The tools are those that the last
    session or test has seen.
    """
    own = load_settings(forge_home()).mcp.servers
    if worker is None:
        rows = [_row(name, server, "config.yaml") for name, server in own.items()]
    else:
        named = named_servers(load_worker(find_worker(worker)))
        project = {}
        for each in reversed(project_servers(Path.cwd())):  # so that the first file wins
            project.update(dict.fromkeys(each.servers, each))
        rows = [_row(name, *_defined(name, server, own, project)) for name, server in named.items()]
    if as_json:
        print_json(rows)
    elif rows:
        shown = [
            {**row, "seen": local_time(str(row.get("seen") or "never"), "%b %d %H:%M")}
            for row in rows
        ]
        dropped = [
            Column(name, drop=at) for at, name in enumerate(("from", "confined", "seen", "tools"))
        ]
        print_table(["name", *dropped, "address"], shown)
    else:
        sys.stderr.write("there are no MCP servers; forge mcp add NAME defines one\n")


def _defined(
    name: str,
    server: McpServer | None,
    own: Mapping[str, McpServer],
    project: Mapping[str, ProjectServers],
) -> tuple[McpServer | None, str]:
    """Return the definition of a server that a worker names, and where it is."""
    if server is not None:
        return server, "worker"
    if name in own or name not in project:
        return own.get(name), "config.yaml"
    return project[name].servers[name], project[name].file.name


def _row(name: str, server: McpServer | None, origin: str) -> dict[str, Any]:
    if server is None:
        return {
            "name": name,
            "from": origin,
            "error": f"not defined; run: forge mcp add {name} -- COMMAND",
        }
    address = server.url or shlex.join([str(server.command), *server.args])
    row = {"name": name, "from": origin, "confined": describe_confined(server), "address": address}
    kept = KeptOffer(forge_home(), server, Path.cwd()).find()
    if kept is None:
        return {**row, "tools": None, "seen": None}
    return {**row, "tools": len(kept.tools), "seen": kept.when}
