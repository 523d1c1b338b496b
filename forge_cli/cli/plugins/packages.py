"""Packages come and go: what may be installed or removed, by whom, and what that did."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import invalidate_caches
from pathlib import Path

from forge_cli import __version__
from forge_cli.cli.plugins.managers import CONSTRAINTS, PackageManager, Wanted
from forge_cli.cli.stdin import is_interactive
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.text import visible
from forge_cli.engine.plugins.requirements import OWN, canonical
from forge_cli.engine.plugins.scan import Plugin, installed
from forge_cli.files.home import forge_home

_NAMED = re.compile(r"([A-Za-z0-9][\w.-]*)\s*(\[[^\]]*\]\s*)?($|[=<>!~;@,(\s].*)", re.DOTALL)
WriteCommands = Callable[[Path], list[list[str]]]


def read_wanted(spelled: str) -> Wanted:
    """What to install: a name, a path or an address; never forge itself."""
    if spelled.startswith("-") or not spelled.strip():
        raise UsageError(f"'{visible(spelled)}' is not a package", hint="give a name or a path")
    path = Path(spelled).expanduser()
    if spelled.startswith((".", "/", "~")) or (path.parent != Path() and "://" not in spelled and path.exists()):
        return _local(path, spelled)
    named = _NAMED.fullmatch(spelled)
    if named and path.is_dir():
        hint = f"./{spelled} is the folder; for the package of that name, type this elsewhere"
        raise UsageError(f"there is a folder {visible(spelled)} here, too", hint=hint)
    return _not_forge(Wanted(spelled, named[1] if named and "://" not in named[1] else None))


def _local(path: Path, spelled: str) -> Wanted:
    if not path.exists():
        raise UsageError(f"there is no file or folder {visible(spelled)}")
    path = path.resolve()
    if path.is_file():
        return _not_forge(Wanted(str(path), path.name.partition("-")[0] if path.suffix == ".whl" else None))
    try:
        project = tomllib.loads((path / "pyproject.toml").read_text("utf-8")).get("project", {})
    except FileNotFoundError:
        raise UsageError(f"{visible(spelled)} is not a project: it has no pyproject.toml") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{visible(spelled)}/pyproject.toml cannot be read: {error}") from None
    name = project.get("name") if isinstance(project, dict) else None
    return _not_forge(Wanted(str(path), name if isinstance(name, str) else None, path))


def _not_forge(wanted: Wanted) -> Wanted:
    if wanted.name and canonical(wanted.name) == OWN:
        raise UsageError(f"{OWN} is forge itself, which forge plugins leaves as it is")
    return wanted


def change(manager: PackageManager, write: WriteCommands) -> None:
    """Say what is run, and run it in front of the person; what it prints is not data."""
    with _constraints() as scratch:
        added = manager.environment(scratch)
        said = [f"{name}={value}" for name, value in added.items() if os.environ.get(name) != value]
        for argv in write(scratch):
            sys.stderr.write(visible(f"{manager.label} manages this environment: {shlex.join([*said, *argv])}") + "\n")
            sys.stderr.flush()
            _run(manager.label, argv, {**os.environ, **added})
    invalidate_caches()


def _run(label: str, argv: list[str], environment: Mapping[str, str]) -> None:
    stdin = None if is_interactive() else subprocess.DEVNULL
    try:
        done = subprocess.run(argv, env=environment, stdin=stdin, stdout=sys.stderr.fileno(), check=False)
    except OSError as error:
        raise ForgeError(f"{label} cannot be started: {error}") from None
    if done.returncode != 0:
        raise ForgeError(f"{label} failed with exit code {done.returncode}; what it says is above")


@contextmanager
def _constraints() -> Iterator[Path]:
    """A folder with the file by which no installer changes the version of forge."""
    with tempfile.TemporaryDirectory(prefix="forge-plugins-") as folder:
        (Path(folder) / CONSTRAINTS).write_text(f"{OWN}=={__version__}\n")
        yield Path(folder)


def installed_plugins() -> tuple[Plugin, ...]:
    """As they are right now."""
    return installed(forge_home() / "cache")
