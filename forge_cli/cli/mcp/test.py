"""``forge mcp test``: connects to servers and lists what they offer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from forge_cli.cli.find_worker import find_trusted_worker
from forge_cli.cli.options import DirectoryOption, JsonOption, new_app, work_folder
from forge_cli.cli.output import data_output
from forge_cli.core.errors import ExitCode, WorkerError
from forge_cli.core.text import visible
from forge_cli.core.wire import camel_keys
from forge_cli.engine.runtime.without_model import opened
from forge_cli.files.home import forge_home
from forge_cli.files.lookup import is_path, named_workers
from forge_cli.files.worker import Worker, load_worker
from forge_cli.inspection.named_servers import (
    describe_confined,
    is_defined,
    with_servers_only,
    worker_for,
)
from forge_cli.process.signals import in_loop
from forge_cli.toolsets.mcp.connection import Connection
from forge_cli.toolsets.mcp.toolset import McpToolset
from forge_cli.ui.table import Column, print_json, print_table

app = new_app()


@app.command("test")
def connect_and_list(
    target: Annotated[
        str,
        typer.Argument(
            metavar="WORKER|NAME", help="A worker, or a server in config.yaml or .mcp.json."
        ),
    ],
    directory: DirectoryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Connect to MCP servers, and list what they offer.

    Servers are started, or reached over the network, as in a session; no tool is called. The exit
    code is 1 if a server cannot be reached.
    """
    folder = work_folder(directory)
    worker = _find(target, folder)
    with data_output():
        rows = in_loop(connect, worker, folder)
    if as_json:
        print_json(list(map(camel_keys, rows)))
    else:
        columns = ["protocol", "connected", "latency", "confined"]
        shown = [{**row, "tools": _tools(row)} for row in rows]
        print_table(
            ["name", *(Column(name, drop=at) for at, name in enumerate(columns)), Column("tools")],
            shown,
        )
    if any("error" in row for row in rows):
        raise typer.Exit(ExitCode.FAILED)


def _find(target: str, folder: Path) -> Worker:
    if not is_path(target) and is_defined(target, folder):
        return worker_for(target)
    workers = [worker.name for worker in named_workers(Path.cwd(), forge_home())]
    if (
        target.strip()
        and not is_path(target)
        and not os.path.isdir(target)
        and target not in workers
    ):
        hint = "forge worker list and forge mcp list show the available names"
        raise WorkerError(
            None, f"there is no worker and no MCP server '{visible(target)}'", hint=hint
        )
    return with_servers_only(load_worker(find_trusted_worker(target, interactive=False)))


async def connect(worker: Worker, workspace: Path) -> list[dict[str, Any]]:
    """Return a row for every server."""
    async with opened(worker, workspace=workspace, make_zones=False) as assembly:
        toolset = assembly.toolbox.toolsets[0].toolset  # ``with_servers_only`` leaves no other
        if not isinstance(toolset, McpToolset):
            raise TypeError(f"{toolset!r} has no servers")
        left_out = {name: problem for name, (_, problem) in toolset.left_out().items()}
        tools: dict[str, list[str]] = {each.name: [] for each in toolset.connections}
        for name, offer in assembly.toolbox.offers.items():
            if offer.tool.source and offer.tool.source.origin in tools:
                tools[offer.tool.source.origin].append(name)
        return [_row(each, tools[each.name], left_out) for each in toolset.connections]


def _row(server: Connection, tools: list[str], left_out: dict[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {"name": server.name, "confined": describe_confined(server.server)}
    if not server.connected:
        closed = visible(server.failure or "the connection was closed")
        return {**row, "error": left_out.get(server.name) or closed}
    found = {
        "protocol": server.protocol,
        "connected": f"{server.connecting * 1000:.0f} ms",
        "latency": f"{server.latency * 1000:.0f} ms",
        "tools": tools,
        "left_out": {
            name: why for name, why in left_out.items() if name.startswith(f"{server.name}__")
        },
    }
    return {**row, **found}


def _tools(row: dict[str, Any]) -> str:
    """Return the number of tools and their names, in this order because the cell may be cut."""
    if "error" in row:
        return ""
    names = ", ".join(row["tools"])
    told = str(len(row["tools"]))
    if row["left_out"]:
        told += f" ({len(row['left_out'])} left out)"
    if names:
        told += f": {names}"
    return told
