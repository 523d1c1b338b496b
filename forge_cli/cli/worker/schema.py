"""``forge worker schema``: the JSON Schema of worker files or config.yaml, for editors."""

from __future__ import annotations

from typing import Annotated

import typer

from forge_cli.cli.options import new_app
from forge_cli.cli.output import data_output
from forge_cli.inspection.file_schema import config_schema, worker_schema
from forge_cli.process.signals import in_loop
from forge_cli.ui.table import print_json

app = new_app()


@app.command()
def schema(
    config: Annotated[
        bool, typer.Option("--config", help="Print the schema of config.yaml instead.")
    ] = False,
) -> None:
    """Print the JSON Schema of worker files, for editors.

    It includes the sections of all installed toolsets.
    """
    with data_output():
        found = in_loop(config_schema if config else worker_schema)
    print_json(found)
