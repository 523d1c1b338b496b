"""``forge plugins install``: a package put where forge finds it, by the program that manages this environment."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from forge_cli.cli.options import new_app
from forge_cli.cli.plugins.common import describe_offers, distributions
from forge_cli.cli.plugins.managers import Wanted, current_manager
from forge_cli.cli.plugins.packages import change, installed_plugins, read_wanted
from forge_cli.core.text import visible
from forge_cli.engine.plugins.requirements import canonical
from forge_cli.engine.plugins.scan import Plugin

app = new_app()


@app.command()
def install(
    distribution: Annotated[
        str, typer.Argument(metavar="DIST", help="A package by its name, or the path of a project or a wheel.")
    ],
) -> None:
    """Install a package with plugins, or bring it up to date.

    pip, uv, pipx or uv tool does it, whichever manages the environment of forge; forge itself stays as it is.
    """
    wanted, manager = read_wanted(distribution), current_manager()
    before = installed_plugins()
    change(manager, lambda scratch: manager.install(wanted, scratch))
    found = _arrived(wanted, before)
    for name, plugins in found.items():
        sys.stdout.write(visible(f"installed {plugins[0]}: {describe_offers(plugins)}") + "\n")
        sys.stderr.write(visible(f"forge plugins check {name} says whether it is sound") + "\n")
    if not found:
        sys.stderr.write("warning: it has no plugins for forge: no entry points of the group 'forge'\n")


def _arrived(wanted: Wanted, before: tuple[Plugin, ...]) -> dict[str, list[Plugin]]:
    """The distributions with plugins that were not there before, and the one that was named."""
    found = distributions(installed_plugins())
    name = canonical(wanted.name) if wanted.name else None
    return {
        each: plugins for each, plugins in found.items() if canonical(each) == name or not set(plugins) <= set(before)
    }
