"""Zones: the folders a worker may touch, pinned to real places once, at load."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from forge_cli import sandbox
from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.text import visible
from forge_cli.core.zones import Zone, ZoneApproval, ZoneMode

if TYPE_CHECKING:
    from forge_cli.sandbox.network.rules import Network
    from forge_cli.sandbox.processes.limits import ProcessLimits
    from forge_cli.sandbox.zones.config import SandboxConfig

DEFAULT_ZONE = "workspace"
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_PACKAGE = Path(__file__).resolve().parents[2]
_PSEUDO = ("/proc", "/sys", "/dev")


class UnmakeableZone(WorkerError):
    """The folder of a zone is missing, and cannot be made."""


class NoDefaultZone(WorkerError):
    """A worker declares no zones, and its working directory cannot be one."""

    def __init__(self, refusal: str, file: str) -> None:
        remedy = "use -C DIR, or add a folder with --add-dir DIR"
        self.reason = f"the working directory is not a zone, because {refusal}; {remedy}"
        """A sentence for a model that wants a file."""
        problem = f"the working directory cannot be the default zone: {refusal}"
        super().__init__(
            None, problem, hint=f"{remedy}, or declare zones in {visible(file)}" if _is_own(file) else remedy
        )


def checked_name(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,63}", name):
        raise ValueError(
            f"{_shown(name)} is not a name for a zone; use up to 64 of a-z, 0-9, '_' and '-', a letter first"
        )
    return name


class IsolationLevel(Enum):
    """How much ``sandbox.isolation`` wants."""

    AUTO = "auto"
    REQUIRED = "required"
    OFF = "off"

    @property
    def network(self) -> bool:
        """The default of ``sandbox.network``."""
        return self is not IsolationLevel.REQUIRED


class Isolation(Struct, frozen=True):
    """The wishes of a worker for its child processes."""

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
        return self.stated_limits or sandbox.processes.limits.DEFAULT_LIMITS


def open_zones(
    config: SandboxConfig | None, *, workspace: Path, user_home: Path, file: str, make: bool = True
) -> tuple[Zone, ...]:
    """The zones that a worker gets: those it declares, or the working directory when it declares none."""
    declared = declared_zones(config, workspace=workspace, user_home=user_home, file=file)
    if declared is None:
        return (_default_zone(workspace, user_home, file),)
    return distinct(open_zone(zone, user_home=user_home, make=make) for zone in declared)


def open_zone(zone: Zone, *, user_home: Path, make: bool = True) -> Zone:
    """The zone with its root resolved and pinned, and made when it may be written; refused where no zone may lie.

    Without ``make`` nothing on disk changes, and what could not be made is refused all the same.
    """
    root = _resolved(zone)
    if refusal := _refusal(root, user_home):
        raise WorkerError(zone.where, f"zone '{zone.name}': {refusal}", hint="name a folder of its own")
    if zone.mode is ZoneMode.RW and not os.path.lexists(root):
        return _made(zone, root, make=make)
    try:
        found = os.stat(root)
    except OSError as error:
        reason = error.strerror or str(error)
        hint = "make it first, or declare the zone with 'mode: rw'" if isinstance(error, FileNotFoundError) else None
        raise WorkerError(zone.where, f"zone '{zone.name}': {_shown(root)}: {reason}", hint=hint) from None
    if not stat.S_ISDIR(found.st_mode):
        raise WorkerError(zone.where, f"zone '{zone.name}': {_shown(root)} is not a folder")
    return replace(zone, path=root)


def distinct(zones: Iterable[Zone]) -> tuple[Zone, ...]:
    """The zones, unless two of them have one name or one folder."""
    names: set[str] = set()
    folders: dict[tuple[int, int] | Path, Zone] = {}
    opened = tuple(zones)
    for zone in opened:
        if zone.name in names:
            raise WorkerError(zone.where, f"zone '{zone.name}' is declared twice", hint="give each its own name")
        names.add(zone.name)
        other = folders.setdefault(_identity(zone.path), zone)
        if other is not zone:
            message = f"zones '{other.name}' and '{zone.name}' are the same folder, {_shown(zone.path)}"
            raise WorkerError(zone.where, message, hint="keep one of them")
    return opened


def _identity(root: Path) -> tuple[int, int] | Path:
    """The folder on disk; before it is made, the path that it will have."""
    try:
        found = os.stat(root)
    except FileNotFoundError:
        return root
    return found.st_dev, found.st_ino


def declared_zones(config: SandboxConfig | None, *, workspace: Path, user_home: Path, file: str) -> list[Zone] | None:
    """The zones as a worker file has them, with nothing looked up; None where it says nothing of zones."""
    if config is None or config.zones is None:
        return None
    return [_declared(config, index, workspace, user_home, file) for index in range(len(config.zones))]


def _declared(config: SandboxConfig, index: int, workspace: Path, user_home: Path, file: str) -> Zone:
    entry, where = (config.zones or ())[index], config.where("zones", index) or Mark(file)
    return Zone(
        name=entry.name,
        path=workspace / expanded(entry.path or entry.name, user_home),
        mode=entry.mode,
        approval=ZoneApproval(entry.approval.write, entry.approval.delete),
        where=where,
        write_where=config.where("zones", index, "approval", "write") or where,
        delete_where=config.where("zones", index, "approval", "delete") or where,
        write_stated="write" in entry.approval.model_fields_set,
    )


def _default_zone(workspace: Path, user_home: Path, file: str) -> Zone:
    root = Path(os.path.realpath(workspace))
    if refusal := _refusal(root, user_home):
        raise NoDefaultZone(refusal, file)
    if not root.is_dir():
        raise WorkerError(None, f"the working directory {_shown(root)} is not a folder", hint="use -C DIR")
    return Zone(DEFAULT_ZONE, root, ZoneMode.RW, default=True)


def _is_own(file: str) -> bool:
    """Is it a file that people edit: there, theirs to write, and not one that was installed?"""
    real = Path(os.path.realpath(file))
    installed = real.is_relative_to(_PACKAGE) or not _INSTALLED.isdisjoint(real.parts)
    return not installed and real.is_file() and os.access(real, os.W_OK)


def expanded(path: str, user_home: Path) -> Path:
    """A path of the host as people write it, with ``~`` for their home."""
    if path == "~" or path.startswith("~/"):
        return user_home / path[1:].lstrip("/")
    return Path(path)


def _shown(path: Path | str) -> str:
    """A path or a name in quotes, for a sentence."""
    return sandbox.names.shown(str(path))


def _resolved(zone: Zone) -> Path:
    try:
        return Path(os.path.realpath(zone.path))
    except (OSError, ValueError) as error:
        raise WorkerError(zone.where, f"zone '{zone.name}': {_shown(zone.path)}: {error}") from None


def _made(zone: Zone, root: Path, *, make: bool) -> Zone:
    problem = _make(root) if make else _unmakeable(root)
    if problem:
        raise UnmakeableZone(zone.where, f"zone '{zone.name}': {_shown(root)} cannot be made: {problem}")
    return replace(zone, path=root, made=make)


def _refusal(root: Path, user_home: Path) -> str | None:
    """Why no zone may lie there, or None when one may."""
    if _same(root, Path("/")):
        return "'/' is the whole machine"
    if _same(root, user_home):
        return f"{_shown(root)} is your home folder itself"
    for pseudo in map(Path, _PSEUDO):
        if root.is_relative_to(pseudo) or _on_device_of(root, pseudo):
            return f"{_shown(root)} lies in {pseudo}, which holds no files"
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


def _make(root: Path) -> str | None:
    """Make the folder, with those above it; returns what is in the way."""
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return error.strerror or str(error)
    return None


def _unmakeable(root: Path) -> str | None:
    """The obstacle to making the folder, with nothing made."""
    above = next(folder for folder in root.parents if os.path.lexists(folder))
    if not above.is_dir():
        return os.strerror(errno.ENOTDIR)
    # the process that confined this one has asked before, outside, where it can be known
    writable = sandbox.isolation.inherited.inherited() or os.access(above, os.W_OK | os.X_OK)
    return None if writable else os.strerror(errno.EACCES)
