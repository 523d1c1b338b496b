"""``forge plugins install|uninstall``: packages installed and removed by pip or uv."""

from __future__ import annotations

import os
import sys
from tempfile import NamedTemporaryFile
from typing import Annotated

import typer

from forge_cli import __version__
from forge_cli.cli.notices import ask
from forge_cli.cli.options import new_app
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.source import OWN, canonical
from forge_cli.core.text import visible
from forge_cli.engine.plugins.distributions import (
    describe_offers,
    distributions,
    installed_distribution,
    installed_plugins,
    installer_command,
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
    yes: Annotated[
        bool, typer.Option("-y", "--yes", help="Install a package of an index without asking.")
    ] = False,
) -> None:
    """Install a package with plugins, or update it.

    Shows who published a package of an index, and asks. Uses pip, or uv if the environment of
    forge has no pip; forge itself is not changed.
    """
    package, name = read_package(distribution)
    if not os.path.isabs(package):
        installer_command("install")
        package = _agreed_on(package, yes=yes)
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


def _agreed_on(package: str, *, yes: bool) -> str:
    """Return the version that was shown of a package from elsewhere, once a person agrees."""
    from forge_cli.cli.plugins.published import look_up

    if "://" in package:
        lines = [package, "  publisher, version and entry points are unknown until it is installed"]
    else:
        found = look_up(package)
        lines = list(found.lines())
        package = found.requirement
    for line in lines:
        sys.stderr.write(visible(line) + "\n")
    if yes:
        return package
    if not is_interactive():
        raise UsageError(
            f"nobody can be asked whether to install {visible(package)}",
            hint="look at the lines above, and add -y if you want it",
        )
    question = "Install it? Its code runs in forge, unconfined. [y]es, [n]o > "
    if ask(question).lower() not in ("y", "yes"):
        raise ForgeError("nothing was installed")
    return package


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
