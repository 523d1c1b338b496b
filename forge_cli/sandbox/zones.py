"""Zones: the folders a worker may touch, read from its file and pinned to real places once, at load."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from pydantic import Field, field_validator

from forge_cli.core.approval import Approval
from forge_cli.core.config import Config
from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.text import visible
from forge_cli.sandbox.names import shown

DEFAULT_ZONE = "workspace"
_PSEUDO = ("/proc", "/sys", "/dev")


class Mode(Enum):
    """What is possible in a zone at all, whoever consents."""

    RO = "ro"
    RW = "rw"


class Access(Enum):
    """What a call wants of a path; INFO asks whether it exists and what it is."""

    READ = "read"
    LIST = "list"
    INFO = "info"
    WRITE = "write"
    DELETE = "delete"

    @property
    def changes(self) -> bool:
        return self in (Access.WRITE, Access.DELETE)


class ZoneApproval(Config):
    """Consent in a zone; reading needs none."""

    write: Approval = Approval.ASK
    delete: Approval = Approval.ASK


class ZoneConfig(Config):
    """One entry of ``sandbox.zones``."""

    name: str
    path: str | None = Field(default=None, min_length=1)
    mode: Mode = Mode.RO
    approval: ZoneApproval = ZoneApproval()

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        if not re.fullmatch(r"[a-z][a-z0-9_-]{0,63}", name):
            raise ValueError(
                f"{shown(name)} is no name for a zone; use up to 64 of a-z, 0-9, '_' and '-', a letter first"
            )
        return name


class Level(Enum):
    """How much ``sandbox.isolation`` wants."""

    AUTO = "auto"
    REQUIRED = "required"
    OFF = "off"

    @property
    def network(self) -> bool:
        """What ``sandbox.network`` is when nobody says."""
        return self is not Level.REQUIRED


@dataclass(frozen=True)
class Isolation:
    """What a worker wants for its child processes."""

    level: Level = Level.AUTO
    network: bool = True
    where: Mark | None = None


class SandboxConfig(Config):
    """The ``sandbox`` part of a worker; without ``zones`` the default zone stays, an empty list means none."""

    zones: list[ZoneConfig] | None = None
    isolation: Level = Level.AUTO
    network: bool | None = None

    def wanted(self) -> Isolation:
        network = self.isolation.network if self.network is None else self.network
        return Isolation(self.isolation, network, self.where("isolation"))


@dataclass(frozen=True)
class Zone:
    """A folder that tools see as ``/NAME``; ``root`` is the real one, without links."""

    name: str
    root: Path
    mode: Mode = Mode.RO
    write: Approval = Approval.ASK
    delete: Approval = Approval.ASK
    where: Mark | None = None
    write_where: Mark | None = None
    delete_where: Mark | None = None
    default: bool = False
    """Nobody declared it: it stands for the working directory, and relative paths mean it."""


def open_zones(config: SandboxConfig | None, *, workspace: Path, user_home: Path, file: str) -> tuple[Zone, ...]:
    """The zones that a worker gets: those it declares, or the working directory when it declares none."""
    if config is None or config.zones is None:
        return (_default_zone(workspace, user_home, file),)
    return distinct(_declared(config, config.zones, workspace, user_home, file))


def open_zone(zone: Zone, *, user_home: Path) -> Zone:
    """The zone with its root made (when it may be written), resolved and pinned; refused where no zone may lie."""
    root = _resolved(zone)
    if refusal := _refusal(root, user_home):
        raise WorkerError(zone.where, f"zone '{zone.name}': {refusal}", hint="name a folder of its own")
    if zone.mode is Mode.RW:
        _make(zone, root)
    try:
        found = os.stat(root)
    except OSError as error:
        reason = error.strerror or str(error)
        hint = "make it first, or declare the zone with 'mode: rw'" if isinstance(error, FileNotFoundError) else None
        raise WorkerError(zone.where, f"zone '{zone.name}': {shown(str(root))}: {reason}", hint=hint) from None
    if not stat.S_ISDIR(found.st_mode):
        raise WorkerError(zone.where, f"zone '{zone.name}': {shown(str(root))} is not a folder")
    return replace(zone, root=root)


def distinct(zones: Iterable[Zone]) -> tuple[Zone, ...]:
    """The zones, unless two of them have one name or one folder."""
    names: set[str] = set()
    folders: dict[tuple[int, int], Zone] = {}
    opened = tuple(zones)
    for zone in opened:
        if zone.name in names:
            raise WorkerError(zone.where, f"zone '{zone.name}' is declared twice", hint="give each its own name")
        names.add(zone.name)
        found = os.stat(zone.root)
        other = folders.setdefault((found.st_dev, found.st_ino), zone)
        if other is not zone:
            message = f"zones '{other.name}' and '{zone.name}' are the same folder, {shown(str(zone.root))}"
            raise WorkerError(zone.where, message, hint="keep one of them")
    return opened


def _declared(
    config: SandboxConfig, zones: list[ZoneConfig], workspace: Path, user_home: Path, file: str
) -> Iterator[Zone]:
    for index, entry in enumerate(zones):
        where = config.where("zones", index) or Mark(file)
        zone = Zone(
            name=entry.name,
            root=workspace / _expanded(entry.path or entry.name, user_home),
            mode=entry.mode,
            write=entry.approval.write,
            delete=entry.approval.delete,
            where=where,
            write_where=config.where("zones", index, "approval", "write") or where,
            delete_where=config.where("zones", index, "approval", "delete") or where,
        )
        yield open_zone(zone, user_home=user_home)


def _default_zone(workspace: Path, user_home: Path, file: str) -> Zone:
    root = Path(os.path.realpath(workspace))
    hint = f"use -C DIR, or declare zones in {visible(file)}"
    if refusal := _refusal(root, user_home):
        raise WorkerError(None, f"the working directory cannot be the default zone: {refusal}", hint=hint)
    if not root.is_dir():
        raise WorkerError(None, f"the working directory {shown(str(root))} is not a folder", hint=hint)
    return Zone(DEFAULT_ZONE, root, Mode.RW, default=True)


def _expanded(path: str, user_home: Path) -> Path:
    if path == "~" or path.startswith("~/"):
        return user_home / path[1:].lstrip("/")
    return Path(path)


def _resolved(zone: Zone) -> Path:
    try:
        return Path(os.path.realpath(zone.root))
    except (OSError, ValueError) as error:
        raise WorkerError(zone.where, f"zone '{zone.name}': {shown(str(zone.root))}: {error}") from None


def _make(zone: Zone, root: Path) -> None:
    try:
        root.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        return
    except OSError as error:
        message = f"zone '{zone.name}': {shown(str(root))} cannot be made: {error.strerror or error}"
        raise WorkerError(zone.where, message) from None


def _refusal(root: Path, user_home: Path) -> str | None:
    if _same(root, Path("/")):
        return "'/' is the whole machine"
    if _same(root, user_home):
        return f"{shown(str(root))} is your home folder itself"
    for pseudo in map(Path, _PSEUDO):
        if root.is_relative_to(pseudo) or _on_device_of(root, pseudo):
            return f"{shown(str(root))} lies in {pseudo}, which holds no files"
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
