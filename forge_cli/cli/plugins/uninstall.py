"""``forge plugins uninstall``: a package with plugins removed, however broken it is."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from forge_cli.cli.options import new_app
from forge_cli.cli.plugins.common import installed_distribution, installed_plugins
from forge_cli.cli.plugins.pip import run_pip
from forge_cli.core.errors import ForgeError
from forge_cli.core.text import visible

app = new_app()


@app.command()
def uninstall(
    distribution: Annotated[str, typer.Argument(metavar="DIST", help="A package that forge plugins list names.")],
) -> None:
    """Remove a package with plugins, without asking.

    Nothing of it is imported, so that a broken one can be removed, too. Packages without plugins are left alone.
    """
    name = installed_distribution(distribution)
    run_pip("uninstall", pip=["--yes", name], uv=[name])
    if any(plugin.distribution == name for plugin in installed_plugins()):
        raise ForgeError(f"{name} is still there: it lies in a folder that pip does not manage")
    sys.stdout.write(visible(f"uninstalled {name}") + "\n")
