"""``forge serve acp``: a worker in editors, by the Agent Client Protocol."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from forge_cli.apps.acp.editors import Editor, config_for
from forge_cli.cli.find_worker import find_trusted_worker
from forge_cli.cli.options import new_app
from forge_cli.cli.output import data_output
from forge_cli.cli.run_options import SharedOptions
from forge_cli.files.worker import load_worker
from forge_cli.process.signals import in_loop

app = new_app()
DEFAULT = "coder"


@app.command()
def acp(
    options: SharedOptions,
    worker: Annotated[
        str, typer.Argument(metavar="WORKER", help="A name (forge worker list), a worker file, or a folder with one.")
    ] = DEFAULT,
    print_config: Annotated[
        Editor | None,
        typer.Option("--print-config", help="Print what to write into the settings of this editor, and end."),
    ] = None,
) -> None:
    """Put a worker into editors that speak the Agent Client Protocol.

    The editor starts this command, and says in which folder each session works. Calls that ask are asked there.
    """
    path = str(Path(find_trusted_worker(worker, interactive=False)).absolute())
    load_worker(path)
    asked = options.chosen(path, worker, workspace=Path.cwd().resolve())
    with data_output() as out:
        if print_config is not None:
            out.write(config_for(print_config, asked))
            return
        serve = import_module("forge_cli.apps.acp.serving").serve
        code = in_loop(serve, asked, out)
    raise typer.Exit(code)
