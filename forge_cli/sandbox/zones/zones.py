"""Zones: the folders that a worker may use, resolved once when it is loaded."""

from __future__ import annotations

import os
import re
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.text import visible
from forge_cli.core.zones import Zone, ZoneMode

if TYPE_CHECKING:
    from forge_cli.sandbox.network.rules import Network
    from forge_cli.sandbox.processes.limits import ProcessLimits

DEFAULT_ZONE = "workspace"
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_PACKAGE = Path(__file__).resolve().parents[2]
_PSEUDO = ("/proc", "/sys", "/dev")


class NoDefaultZone(WorkerError):
    """A worker without declared zones whose working directory cannot be a zone."""

    def __init__(self, refusal: str, file: str) -> None:
        remedy = "use -C DIR, or add a folder with --add-dir DIR"
        self.reason = f"the working directory is not a zone, because {refusal}; {remedy}"
        """The reason, for a model that wants a file."""
        problem = f"the working directory cannot be the default zone: {refusal}"
        hint = remedy
        if _is_editable(file):
            hint = f"{remedy}, or declare zones in {visible(file)}"
        super().__init__(None, problem, hint=hint)


def require_zone_name(name: str) -> str:
    """Return a valid zone name; raise a ValueError for an invalid one."""
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,63}", name):
        allowed = "begin with a-z, then up to 63 of a-z, 0-9, '_' and '-'"
        raise ValueError(f"{_shown(name)} is not a valid zone name; {allowed}")
    return name


class IsolationLevel(Enum):
    """Values of ``sandbox.isolation``."""

    AUTO = "auto"
    REQUIRED = "required"
    OFF = "off"

    @property
    def network(self) -> bool:
        """The default of ``sandbox.network``."""
        return self is not IsolationLevel.REQUIRED


class Isolation(Struct, frozen=True):
    """The confinement that a worker wants for its child processes."""

    level: IsolationLevel = IsolationLevel.AUTO
    network: Network = True
    where: Mark | None = None
    read: tuple[Path, ...] = ()
    """Hidden parts of the home that confined processes may read."""
    stated_limits: ProcessLimits | None = None
    network_where: Mark | None = None

    @property
    def limits(self) -> ProcessLimits:
        """The limits of one command."""
        if self.stated_limits:
            return self.stated_limits
        from forge_cli.sandbox.processes.limits import DEFAULT_LIMITS

        return DEFAULT_LIMITS


def default_zone(*, workspace: Path, user_home: Path, file: str) -> Zone:
    """Return the zone of a worker that declares none: the working directory."""
    root = Path(os.path.realpath(workspace))
    if why := zone_refusal(root, user_home):
        raise NoDefaultZone(why, file)
    if not root.is_dir():
        raise WorkerError(
            None, f"the working directory {_shown(root)} is not a folder", hint="use -C DIR"
        )
    return Zone(DEFAULT_ZONE, root, ZoneMode.RW, default=True)


def _is_editable(file: str) -> bool:
    """Return True if a file exists, is writable, and was not installed with a package."""
    real = Path(os.path.realpath(file))
    installed = real.is_relative_to(_PACKAGE) or not _INSTALLED.isdisjoint(real.parts)
    return not installed and real.is_file() and os.access(real, os.W_OK)


def expand_home(path: str, user_home: Path) -> Path:
    """Return a host path with ``~`` replaced by the user's home."""
    if path == "~" or path.startswith("~/"):
        return user_home / path[1:].lstrip("/")
    return Path(path)


def _shown(path: Path | str) -> str:
    """Return a path or a name in quotes, for a message."""
    from forge_cli.sandbox.names import shown

    return shown(str(path))


def zone_refusal(root: Path, user_home: Path) -> str | None:
    """Return why the folder cannot be a zone, or None if it can."""
    if _same(root, Path("/")):
        return "'/' is the whole machine"
    if _same(root, user_home):
        return f"{_shown(root)} is your home folder itself"
    for pseudo in map(Path, _PSEUDO):
        if root.is_relative_to(pseudo) or _on_device_of(root, pseudo):
            return f"{_shown(root)} is in {pseudo}, which has no ordinary files"
    return None


def _same(one: Path, other: Path) -> bool:
    if one == Path(os.path.realpath(other)):
        return True
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _on_device_of(root: Path, pseudo: Path) -> bool:
    try:
        device = os.stat(pseudo).st_dev
        return device == os.stat(root).st_dev and device != os.stat("/").st_dev
    except OSError:
        return False
