"""``forge plugins new``: a new plugin package that works from the start."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from forge_cli.cli.options import new_app
from forge_cli.engine.plugins.scaffold import PluginKind, make_package, read_name

app = new_app()


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name: a-z, 0-9, '_' and '-'.")],
    kind: Annotated[
        PluginKind, typer.Option("--kind", help="The kind of plugin.")
    ] = PluginKind.TOOLSET,
) -> None:
    """Create a package with a plugin, in a new folder.

    ./forge-tools-NAME has a tool, its tests and a file for CI. Nothing is overwritten.
    """
    folder = make_package(read_name(name, kind), kind)
    sys.stdout.write(_next_steps(folder, kind))


def _next_steps(folder: Path, kind: PluginKind) -> str:
    if kind.value[0] in "aeiou":
        made = f"an {kind.value}"
    else:
        made = f"a {kind.value}"
    return f"""Made {folder}: {made} that works already, with tests.
Next:
  forge plugins install ./{folder}   install it; again after each change
  forge plugins check {folder}       check it
  python -m pytest {folder}          run its tests
Its README says how to publish it.
"""
