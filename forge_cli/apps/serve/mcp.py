"""``forge serve mcp``: a worker's tools, and the worker itself, for MCP clients."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from forge_cli.cli.options import DirectoryOption, new_app, work_folder
from forge_cli.cli.output import data_output
from forge_cli.cli.run_options import LockedOption, ReadOnlyOption
from forge_cli.cli.tools.choose import tool_worker
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.process.signals import in_loop

app = new_app()


@app.command()
def mcp(
    worker: Annotated[
        str | None,
        typer.Argument(
            metavar="WORKER",
            help="A name, a worker file, or a folder. Default: the tools that need no worker.",
        ),
    ] = None,
    http: Annotated[
        int | None,
        typer.Option(
            "--http",
            metavar="PORT",
            help="Serve HTTP on this port of 127.0.0.1, with a token; 0 finds a free port.",
        ),
    ] = None,
    directory: DirectoryOption = None,
    read_only: ReadOnlyOption = False,
    locked: LockedOption = False,
) -> None:
    """Offer a worker's tools, and the worker itself, to MCP clients."""
    asked = RunOptions(workspace=work_folder(directory), read_only=read_only, locked=locked)
    served = tool_worker(worker)
    with data_output() as out:
        # imported late: the SDK is slow to import, and an error above needs none of it
        serve = import_module("forge_cli.apps.serve.transports").serve
        code = in_loop(serve, asked, served, worker is not None, http, out)
    raise typer.Exit(code)
