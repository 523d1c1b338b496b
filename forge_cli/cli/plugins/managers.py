"""Which program manages the environment that forge runs in, and how it installs and removes a package there."""

from __future__ import annotations

import json
import shutil
import sys
import sysconfig
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit, urlunsplit

from forge_cli.core.errors import ForgeError
from forge_cli.engine.plugins.requirements import OWN, canonical

RECEIPT, PIPX, MANAGED = "uv-receipt.toml", "pipx_metadata.json", "EXTERNALLY-MANAGED"
OPTIONS = "[tool.options]"
CONSTRAINTS = "constraints.txt"


@dataclass(frozen=True)
class Wanted:
    """A package to be installed: what to call it, and its name where that is known."""

    spelled: str
    name: str | None = None
    folder: Path | None = None
    """A project on this machine, which is built anew each time."""


class PackageManager(Protocol):
    """Writes the command lines; ``scratch`` is a folder with the file CONSTRAINTS, which keeps forge as it is."""

    @property
    def label(self) -> str:
        """What it is called."""

    def environment(self, scratch: Path) -> Mapping[str, str]:
        """Variables that its commands need beside those of forge."""

    def install(self, wanted: Wanted, scratch: Path) -> list[list[str]]:
        """The commands that put a package there, or bring it up to date."""

    def uninstall(self, distribution: str, scratch: Path) -> list[list[str]]:
        """The commands that remove one."""


@dataclass(frozen=True)
class Pip:
    """The environment's own pip."""

    python: str
    label: str = "pip"

    def environment(self, scratch: Path) -> Mapping[str, str]:
        return {}

    def install(self, wanted: Wanted, scratch: Path) -> list[list[str]]:
        return [[*self._pip("install"), "--upgrade", "--constraint", str(scratch / CONSTRAINTS), wanted.spelled]]

    def uninstall(self, distribution: str, scratch: Path) -> list[list[str]]:
        return [[*self._pip("uninstall"), "--yes", distribution]]

    def _pip(self, command: str) -> list[str]:
        return [self.python, "-m", "pip", command, "--disable-pip-version-check"]


@dataclass(frozen=True)
class Uv:
    """An environment that uv made, or one without pip."""

    program: str
    python: str
    label: str = "uv"

    def environment(self, scratch: Path) -> Mapping[str, str]:
        return {}

    def install(self, wanted: Wanted, scratch: Path) -> list[list[str]]:
        constraint = ["--constraint", str(scratch / CONSTRAINTS)]
        return [[*self._uv("install"), *_anew(wanted), *constraint, wanted.spelled]]

    def uninstall(self, distribution: str, scratch: Path) -> list[list[str]]:
        return [[*self._uv("uninstall"), distribution]]

    def _uv(self, command: str) -> list[str]:
        return [self.program, "pip", command, "--python", self.python]


@dataclass(frozen=True)
class Pipx:
    """An environment that ``pipx install`` made for forge; what it is given by options, it would do again later."""

    program: str
    prefix: Path
    injected: tuple[str, ...] = ()
    label: str = "pipx"

    def environment(self, scratch: Path) -> Mapping[str, str]:
        constraints = str(scratch / CONSTRAINTS)
        home = str(self.prefix.parent.parent)
        return {"PIPX_HOME": home, "PIP_CONSTRAINT": constraints, "UV_CONSTRAINT": constraints}

    def install(self, wanted: Wanted, scratch: Path) -> list[list[str]]:
        """What is there is replaced, if that can be: with ``--force`` forge itself would be installed anew."""
        added = self._pipx("inject", wanted.spelled)
        old = [each for each in self.injected if canonical(each) == canonical(wanted.name or "")]
        if not old:
            return [added]
        return [self._pipx("runpip", "install", "--dry-run", wanted.spelled), self._pipx("uninject", *old), added]

    def uninstall(self, distribution: str, scratch: Path) -> list[list[str]]:
        return [self._pipx("uninject", distribution)]

    def _pipx(self, command: str, *args: str) -> list[str]:
        return [self.program, command, self.prefix.name, *args]


@dataclass(frozen=True)
class UvTool:
    """An environment that ``uv tool install`` made for forge: it is made again from its receipt.

    A constraint would stand in the receipt, and forge could not be upgraded any more. So a first command only looks
    whether forge can stay as it is; uv then leaves what is installed.
    """

    program: str
    prefix: Path
    python: str
    receipt: Mapping[str, Any]
    options: str = ""
    """Settings of uv that the environment was made with, as TOML."""
    label: str = "uv tool"

    def environment(self, scratch: Path) -> Mapping[str, str]:
        folders = {Path(each["install-path"]).parent for each in self.receipt.get("entrypoints", ())}
        bin_dir = {"UV_TOOL_BIN_DIR": str(*folders)} if len(folders) == 1 else {}
        return {"UV_TOOL_DIR": str(self.prefix.parent), **bin_dir}

    def install(self, wanted: Wanted, scratch: Path) -> list[list[str]]:
        constraint = ["--constraint", str(scratch / CONSTRAINTS)]
        looked = [self.program, "pip", "install", "--dry-run", "--python", self.python, *self._settings(scratch)]
        kept = self._others(wanted.name)
        made = [*self._tool(scratch), *_anew(wanted), *kept, "--with", wanted.spelled, *self._forge()]
        return [[*looked, *constraint, wanted.spelled], made]

    def uninstall(self, distribution: str, scratch: Path) -> list[list[str]]:
        return [[*self._tool(scratch), *self._others(distribution), *self._forge()]]

    def _tool(self, scratch: Path) -> list[str]:
        python = ["--python", str(self.receipt["python"])] if "python" in self.receipt else []
        argv = [self.program, "tool", "install", *python, *self._settings(scratch)]
        for key in ("constraints", "overrides", "build-constraints"):
            if listed := self.receipt.get(key):
                file = scratch / f"kept-{key}.txt"
                file.write_text("".join(f"{_spell(each)}\n" for each in listed))
                argv += [f"--{key}", str(file)]
        return argv

    def _settings(self, scratch: Path) -> list[str]:
        if not self.options:
            return []
        (scratch / "uv.toml").write_text(self.options)
        return ["--config-file", str(scratch / "uv.toml")]

    def _others(self, without: str | None) -> list[str]:
        names = {OWN, canonical(without or "")}
        return [part for each in self._requirements if _name(each) not in names for part in self._with(each)]

    def _with(self, requirement: Mapping[str, Any]) -> list[str]:
        if "editable" in requirement:
            return ["--with-editable", _spell(requirement)]
        sources = {canonical(str(each.get("from"))) for each in self.receipt.get("entrypoints", ())}
        option = "--with-executables-from" if _name(requirement) in sources else "--with"
        return [option, _spell(requirement)]

    def _forge(self) -> list[str]:
        own = next((each for each in self._requirements if _name(each) == OWN), {"name": OWN})
        return [*(["--editable"] if "editable" in own else []), _spell(own)]

    @property
    def _requirements(self) -> Sequence[Mapping[str, Any]]:
        return tuple(self.receipt.get("requirements", ()))


def _name(requirement: Mapping[str, Any]) -> str:
    return canonical(str(requirement.get("name")))


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
        spelled = f"{named} @ {_git_address(str(requirement['git']))}"
    elif "url" in requirement:
        spelled = f"{named} @ {requirement['url']}"
    else:
        spelled = f"{named}{requirement.get('specifier', '')}"
    return f"{spelled} ; {requirement['marker']}" if "marker" in requirement else spelled


def _git_address(address: str) -> str:
    """``https://host/repo?rev=1#commit`` of a receipt as ``git+https://host/repo@1``."""
    parts = urlsplit(address)
    query = parse_qs(parts.query)
    rev = next((query[key][0] for key in ("rev", "tag", "branch") if key in query), None)
    folder = f"#subdirectory={query['subdirectory'][0]}" if "subdirectory" in query else ""
    return f"git+{urlunsplit(parts._replace(query='', fragment=''))}{f'@{rev}' if rev else ''}{folder}"


def find_manager(prefix: Path, base: Path, python: str) -> PackageManager:
    """The one that made this environment, found by what it left there; ForgeError where none may change it."""
    if (prefix / RECEIPT).is_file():
        text = (prefix / RECEIPT).read_text("utf-8")
        options = text.partition(OPTIONS)[2].strip().replace("[tool.options.", "[")
        return UvTool(_program("uv"), prefix, python, tomllib.loads(text).get("tool", {}), options)
    if (prefix / PIPX).is_file():
        found = json.loads((prefix / PIPX).read_text("utf-8")).get("injected_packages") or {}
        return Pipx(_program("pipx"), prefix, tuple(found))
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
