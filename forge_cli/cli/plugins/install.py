"""``forge plugins install|uninstall``: packages installed and removed by pip or uv."""

from __future__ import annotations

import sys
from tempfile import NamedTemporaryFile
from typing import Annotated

import typer

from forge_cli import __version__
from forge_cli.cli.options import new_app
from forge_cli.core.errors import ForgeError
from forge_cli.core.source import OWN, canonical
from forge_cli.core.text import visible
from forge_cli.engine.plugins.distributions import (
    describe_offers,
    distributions,
    installed_distribution,
    installed_plugins,
    read_package,
    run_pip,
)
from forge_cli.process.stdin import is_interactive

app = new_app()


@app.command()
def install(
    distribution: Annotated[
        str,
        typer.Argument(
            metavar="DIST", help="The name of a package, or the path of a project or wheel."
        ),
    ],
) -> None:
    """Install a package with plugins, or update it.

    Uses pip, or uv if the environment of forge has no pip; forge itself is not changed.
    """
    package, name = read_package(distribution)
    before = set(installed_plugins())
    with NamedTemporaryFile("w", prefix="forge-", suffix=".txt") as constraints:
        # the package may require forge, which must not be replaced while it runs
        constraints.write(f"{OWN}=={__version__}\n")
        constraints.flush()  # pip reads the file while it is open here
        options = ["--constraint", constraints.name]
        pip = ["--upgrade", *options]
        uv = options
        if name:  # uv --upgrade would also update all requirements of the package
            uv = ["--upgrade-package", name, "--reinstall-package", name, *options]
        run_pip("install", package, pip=pip, uv=uv, interactive=is_interactive())
    found = [
        (each, plugins)
        for each, plugins in distributions(installed_plugins()).items()
        if canonical(each) == canonical(name) or not before.issuperset(plugins)
    ]
    for each, plugins in found:
        sys.stdout.write(visible(f"installed {plugins[0]}: {describe_offers(plugins)}") + "\n")
        sys.stderr.write(visible(f"check it with: forge plugins check {each}") + "\n")
    if not found:
        sys.stderr.write(
            "warning: it has no plugins for forge (no entry points in the group 'forge')\n"
        )


@app.command()
def uninstall(
    distribution: Annotated[
        str, typer.Argument(metavar="DIST", help="A package from forge plugins list.")
    ],
) -> None:
    """Remove a package with plugins, without asking.

    The package is not imported, so that a broken one can be removed, too. Packages without plugins
    are refused.
    """
    name = installed_distribution(distribution)
    run_pip("uninstall", name, pip=["--yes"], uv=[], interactive=is_interactive())
    if any(plugin.distribution == name for plugin in installed_plugins()):
        raise ForgeError(f"{name} is still installed, in a folder that pip does not manage")
    sys.stdout.write(visible(f"uninstalled {name}") + "\n")
