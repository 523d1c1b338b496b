"""Packages put where forge finds them, and removed, by pip or uv."""

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

from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.source import OWN, canonical
from forge_cli.core.text import visible

_NAMED = re.compile(r"([A-Za-z0-9][\w.-]*)\s*(\[[^\]]*\]\s*)?($|[=<>!~;@,(\s].*)", re.DOTALL)


_RECEIPTS = ("uv-receipt.toml", "pipx_metadata.json")


def read_package(text: str) -> tuple[str, str]:
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


def run_pip(command: str, *, pip: list[str], uv: list[str], interactive: bool) -> None:
    """Run a command of pip with these options, or of uv with those; its output is not data."""
    argv = [*_program(command), *(pip if find_spec("pip") else uv)]
    sys.stderr.write(visible(shlex.join(argv)) + "\n")
    sys.stderr.flush()
    stdin = None if interactive else subprocess.DEVNULL
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
    more = ["--disable-pip-version-check"] if find_spec("pip") else ["--python", sys.executable]
    return [*package_manager(), command, *more]


def package_manager() -> list[str]:
    """The command that manages the packages beside forge: its pip, else uv."""
    if find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    if uv := shutil.which("uv"):
        return [uv, "pip"]
    raise ForgeError(f"there is neither pip nor uv for {sys.prefix}", hint=f"try '{sys.executable} -m ensurepip'")
