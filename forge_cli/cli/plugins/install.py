"""``forge plugins install|uninstall``: packages put where forge finds them and removed, by pip or uv."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated

import typer

from forge_cli import __version__
from forge_cli.cli.options import new_app
from forge_cli.cli.plugins.common import describe_offers, distributions, installed_distribution, installed_plugins
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.source import OWN, canonical
from forge_cli.core.text import visible
from forge_cli.process.stdin import is_interactive

_NAMED = re.compile(r"([A-Za-z0-9][\w.-]*)\s*(\[[^\]]*\]\s*)?($|[=<>!~;@,(\s].*)", re.DOTALL)

app = new_app()
_RECEIPTS = ("uv-receipt.toml", "pipx_metadata.json")


@app.command()
def install(
    distribution: Annotated[
        str, typer.Argument(metavar="DIST", help="A package by its name, or the path of a project or a wheel.")
    ],
) -> None:
    """Install a package with plugins, or bring it up to date.

    pip does it, or uv where the environment of forge has no pip; forge itself stays as it is.
    """
    package, name = _read_package(distribution)
    before = set(installed_plugins())
    with NamedTemporaryFile("w", prefix="forge-", suffix=".txt") as constraints:
        constraints.write(f"{OWN}=={__version__}\n")
        constraints.flush()
        options = ["--constraint", constraints.name, package]
        anew = ["--upgrade-package", name, "--reinstall-package", name] if name else []
        run_pip("install", pip=["--upgrade", *options], uv=[*anew, *options])
    found = [
        (each, plugins)
        for each, plugins in distributions(installed_plugins()).items()
        if canonical(each) == canonical(name) or not before.issuperset(plugins)
    ]
    for each, plugins in found:
        sys.stdout.write(visible(f"installed {plugins[0]}: {describe_offers(plugins)}") + "\n")
        sys.stderr.write(visible(f"forge plugins check {each} says whether it is sound") + "\n")
    if not found:
        sys.stderr.write("warning: it has no plugins for forge: no entry points of the group 'forge'\n")


def _read_package(text: str) -> tuple[str, str]:
    """A package as pip takes it, and its name where that is known; never forge itself."""
    if text.startswith("-") or not text.strip():
        raise UsageError(f"'{visible(text)}' is not a package", hint="give a name or a path")
    path = Path(text).expanduser()
    if text.startswith((".", "/", "~")) or ("/" in text and "://" not in text and path.exists()):
        package, name = str(path.resolve()), _local_name(path, visible(text))
    else:
        named = _NAMED.fullmatch(text)
        if named and path.is_dir():
            hint = f"./{text} is the folder; for the package of that name, type this elsewhere"
            raise UsageError(f"there is a folder {visible(text)} here, too", hint=hint)
        package, name = text, named[1] if named else ""
    if canonical(name) == OWN:
        raise UsageError(f"{OWN} is forge itself, which forge plugins leaves as it is")
    return package, name


def _local_name(path: Path, shown: str) -> str:
    """The name of a project or a wheel."""
    if path.is_file():
        return path.name.partition("-")[0] if path.suffix == ".whl" else ""
    if not path.exists():
        raise UsageError(f"there is no file or folder {shown}")
    try:
        project = tomllib.loads((path / "pyproject.toml").read_text("utf-8")).get("project", {})
    except FileNotFoundError:
        raise UsageError(f"{shown} is not a project: it has no pyproject.toml") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{shown}/pyproject.toml cannot be read: {error}") from None
    return str(project.get("name", "")) if isinstance(project, dict) else ""


def run_pip(command: str, *, pip: list[str], uv: list[str]) -> None:
    """Run a command of pip with these options, or of uv with those; its output is not data."""
    argv = [*_program(command), *(pip if find_spec("pip") else uv)]
    sys.stderr.write(visible(shlex.join(argv)) + "\n")
    sys.stderr.flush()
    stdin = None if is_interactive() else subprocess.DEVNULL
    try:
        code = subprocess.run(argv, stdin=stdin, stdout=sys.stderr.fileno(), check=False).returncode
    except OSError as error:
        raise ForgeError(f"{argv[0]} cannot be started: {error.strerror}") from None
    if code:
        raise ForgeError(f"{command}ing failed with exit code {code}; the reason is above")
    if any((Path(sys.prefix) / receipt).is_file() for receipt in _RECEIPTS):
        sys.stderr.write("note: uv tool or pipx made this environment, and undoes this when it rebuilds it\n")
    invalidate_caches()


def _program(command: str) -> list[str]:
    managed = Path(sysconfig.get_path("stdlib")) / "EXTERNALLY-MANAGED"
    if sys.prefix == sys.base_prefix and managed.is_file():
        raise ForgeError(
            f"this Python ({sys.prefix}) belongs to the operating system, and nothing is installed into it",
            hint="install forge with 'uv tool install forge-workers' or 'pipx install forge-workers', or in a venv",
        )
    if find_spec("pip"):
        return [sys.executable, "-m", "pip", command, "--disable-pip-version-check"]
    if uv := shutil.which("uv"):
        return [uv, "pip", command, "--python", sys.executable]
    raise ForgeError(f"there is neither pip nor uv for {sys.prefix}", hint=f"try '{sys.executable} -m ensurepip'")


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
