"""Which program manages the environment that forge runs in, and how it installs and removes a package there."""

from __future__ import annotations

import shutil
import sys
import sysconfig
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from forge_cli.core.errors import ForgeError
from forge_cli.engine.plugins.requirements import OWN, canonical

RECEIPT, PIPX, MANAGED = "uv-receipt.toml", "pipx_metadata.json", "EXTERNALLY-MANAGED"


@dataclass(frozen=True)
class Wanted:
    """A package to be installed: what to call it, and its name where that is known."""

    spelled: str
    name: str | None = None
    folder: Path | None = None
    """A project on this machine, which is built anew each time."""


class PackageManager(Protocol):
    """Writes the command lines; ``constraints`` is a file that keeps forge itself as it is."""

    @property
    def label(self) -> str: ...

    def install(self, wanted: Wanted, constraints: str) -> list[str]: ...

    def uninstall(self, distribution: str, constraints: str) -> list[str]: ...


@dataclass(frozen=True)
class Pip:
    """The environment's own pip."""

    python: str
    label: str = "pip"

    def install(self, wanted: Wanted, constraints: str) -> list[str]:
        return [*self._pip("install"), "--upgrade", "--constraint", constraints, wanted.spelled]

    def uninstall(self, distribution: str, constraints: str) -> list[str]:
        return [*self._pip("uninstall"), "--yes", distribution]

    def _pip(self, command: str) -> list[str]:
        return [self.python, "-m", "pip", command, "--disable-pip-version-check"]


@dataclass(frozen=True)
class Uv:
    """An environment that uv made, or one without pip."""

    program: str
    python: str
    label: str = "uv"

    def install(self, wanted: Wanted, constraints: str) -> list[str]:
        return [*self._uv("install"), *_anew(wanted), "--constraint", constraints, wanted.spelled]

    def uninstall(self, distribution: str, constraints: str) -> list[str]:
        return [*self._uv("uninstall"), distribution]

    def _uv(self, command: str) -> list[str]:
        return [self.program, "pip", command, "--python", self.python]


@dataclass(frozen=True)
class Pipx:
    """An environment that ``pipx install`` made for forge."""

    program: str
    environment: str
    label: str = "pipx"

    def install(self, wanted: Wanted, constraints: str) -> list[str]:
        pip_args = f"--pip-args=--constraint={constraints}"
        return [self.program, "inject", "--force", pip_args, self.environment, wanted.spelled]

    def uninstall(self, distribution: str, constraints: str) -> list[str]:
        return [self.program, "uninject", self.environment, distribution]


@dataclass(frozen=True)
class UvTool:
    """An environment that ``uv tool install`` made for forge: it is made again from the list of its packages."""

    program: str
    requirements: tuple[Mapping[str, Any], ...]
    python: str | None = None
    label: str = "uv tool"

    def install(self, wanted: Wanted, constraints: str) -> list[str]:
        kept = self._others(wanted.name)
        return [*self._tool(constraints), *_anew(wanted), *kept, "--with", wanted.spelled, *self._forge()]

    def uninstall(self, distribution: str, constraints: str) -> list[str]:
        return [*self._tool(constraints), *self._others(distribution), *self._forge()]

    def _tool(self, constraints: str) -> list[str]:
        python = ["--python", self.python] if self.python else []
        return [self.program, "tool", "install", *python, "--constraints", constraints]

    def _others(self, without: str | None) -> list[str]:
        names = {OWN, canonical(without or "")}
        kept = [each for each in self.requirements if canonical(str(each.get("name"))) not in names]
        return [part for each in kept for part in ("--with-editable" if "editable" in each else "--with", _spell(each))]

    def _forge(self) -> list[str]:
        own = next((each for each in self.requirements if canonical(str(each.get("name"))) == OWN), {"name": OWN})
        return [*(["--editable"] if "editable" in own else []), _spell(own)]


def _anew(wanted: Wanted) -> list[str]:
    """The newest version of this package alone; a project on this machine is built again."""
    return [f"--{'reinstall' if wanted.folder else 'upgrade'}-package", wanted.name] if wanted.name else []


def _spell(requirement: Mapping[str, Any]) -> str:
    """A requirement of a receipt as the command line takes it."""
    for key in ("editable", "directory", "path"):
        if key in requirement:
            return str(requirement[key])
    name, extras = requirement["name"], ",".join(requirement.get("extras", ()))
    named = f"{name}[{extras}]" if extras else str(name)
    if "git" in requirement:
        return f"{named} @ git+{requirement['git']}"
    if "url" in requirement:
        return f"{named} @ {requirement['url']}"
    return f"{named}{requirement.get('specifier', '')}"


def find_manager(prefix: Path, base: Path, python: str) -> PackageManager:
    """The one that made this environment, found by what it left there; ForgeError where none may change it."""
    if (prefix / RECEIPT).is_file():
        tool = tomllib.loads((prefix / RECEIPT).read_text("utf-8")).get("tool", {})
        return UvTool(_program("uv"), tuple(tool.get("requirements", ())), tool.get("python"))
    if (prefix / PIPX).is_file():
        return Pipx(_program("pipx"), prefix.name)
    if prefix == base and (Path(sysconfig.get_path("stdlib")) / MANAGED).is_file():
        raise ForgeError(
            f"this Python ({prefix}) belongs to the operating system, and nothing is installed into it",
            hint="install forge with 'uv tool install forge-workers' or 'pipx install forge-workers', or in a venv",
        )
    uv = shutil.which("uv")
    if uv and _made_by_uv(prefix):
        return Uv(uv, python)
    if find_spec("pip"):
        return Pip(python)
    if uv:
        return Uv(uv, python)
    raise ForgeError(f"there is neither pip nor uv for {prefix}", hint=f"try '{python} -m ensurepip'")


def current_manager() -> PackageManager:
    return find_manager(Path(sys.prefix), Path(sys.base_prefix), sys.executable)


def _made_by_uv(prefix: Path) -> bool:
    try:
        lines = (prefix / "pyvenv.cfg").read_text("utf-8").splitlines()
    except OSError:
        return False
    return any(line.partition("=")[0].strip() == "uv" for line in lines)


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ForgeError(f"this environment is managed by {name}, which is not on the PATH")
    return found
