"""Zones: the folders a worker may touch, read from its file and pinned to real places once, at load."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, field_validator, model_validator

from forge_cli.core.approval import Approval
from forge_cli.core.config import Config
from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.text import visible
from forge_cli.core.values import dataclass
from forge_cli.core.zones import Zone, ZoneApproval, ZoneMode
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.network.rules import Network, NetworkRule, NetworkRules
from forge_cli.sandbox.processes.limits import DEFAULT_LIMITS, NO_LIMITS, ProcessLimits
from forge_cli.sandbox.zones import roots
from forge_cli.sandbox.zones.limits import LimitsConfig

DEFAULT_ZONE = "workspace"


class ZoneApprovalConfig(Config):
    """Consent in a zone; reading needs none."""

    write: Approval = Approval.ASK
    """For writing a file."""
    delete: Approval = Approval.ASK
    """For deleting one."""


def checked_name(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,63}", name):
        raise ValueError(
            f"{shown(name)} is not a name for a zone; use up to 64 of a-z, 0-9, '_' and '-', a letter first"
        )
    return name


class ZoneConfig(Config):
    """One entry of ``sandbox.zones``."""

    name: str
    """The zone is /NAME to tools."""
    path: str | None = Field(default=None, min_length=1)
    """Its folder, from the working directory; by default the one called like the zone."""
    mode: ZoneMode = ZoneMode.RO
    """What is possible at all: reading, or writing too."""
    approval: ZoneApprovalConfig = ZoneApprovalConfig.empty()
    """What needs consent."""

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        return checked_name(name)


class IsolationLevel(Enum):
    """How much ``sandbox.isolation`` wants."""

    AUTO = "auto"
    REQUIRED = "required"
    OFF = "off"

    @property
    def network(self) -> bool:
        """What ``sandbox.network`` is when nobody says."""
        return self is not IsolationLevel.REQUIRED


@dataclass(frozen=True)
class Isolation:
    """What a worker wants for its child processes."""

    level: IsolationLevel = IsolationLevel.AUTO
    network: Network = True
    where: Mark | None = None
    read: tuple[Path, ...] = ()
    """Hidden parts of the home that confined processes may read."""
    limits: ProcessLimits = DEFAULT_LIMITS
    network_where: Mark | None = None


def _true_or_false(value: object) -> object:
    if not isinstance(value, bool):
        raise ValueError("must be true, false, or a list of names such as [api.example.org]")
    return value


def _read_rule(text: str) -> str:
    NetworkRule.read(text)
    return text


def _network_form(value: object) -> str:
    return "[names]" if isinstance(value, list) else "[all]"


NetworkConfig = Annotated[
    Annotated[bool, BeforeValidator(_true_or_false), Tag("[all]")]
    | Annotated[list[Annotated[str, AfterValidator(_read_rule)]], Tag("[names]")],
    Discriminator(_network_form),
]
"""What is in brackets is not a part of the place that an error names."""


class SandboxConfig(Config):
    """The ``sandbox`` part of a worker; without ``zones`` the default zone stays, an empty list means none."""

    zones: list[ZoneConfig] | None = None
    """The folders that tools can reach; without it there is one, the working directory."""
    isolation: IsolationLevel = IsolationLevel.AUTO
    """Whether the operating system confines child processes."""
    network: NetworkConfig | None = None
    """Whether a confined process has the network, or names that it reaches while others ask."""
    read: list[str] = Field(default=[])
    """Hidden parts of your home that confined processes may read."""
    limits: LimitsConfig = LimitsConfig.empty()
    """What one command may use."""

    @field_validator("read")
    @classmethod
    def _are_absolute(cls, paths: list[str]) -> list[str]:
        for path in paths:
            if not _expanded(path, Path("/")).is_absolute():
                raise ValueError(f"{shown(path)} is not an absolute path, nor one that begins with ~/")
        return paths

    @model_validator(mode="after")
    def _can_keep_names_apart(self) -> Self:
        if isinstance(self.network, list) and self.isolation is IsolationLevel.OFF:
            raise ValueError("network lists names, which only hold for confined commands, and isolation is off")
        return self

    def wanted(self) -> Isolation:
        said = self.isolation.network if self.network is None else self.network
        network = NetworkRules.read(said) if isinstance(said, list) else said
        read = tuple(Path(os.path.expanduser(path)) for path in self.read)
        unsaid = NO_LIMITS if self.isolation is IsolationLevel.OFF else DEFAULT_LIMITS
        limits, marks = self.limits.limits() | unsaid, (self.where("isolation"), self.where("network"))
        return Isolation(self.isolation, network, marks[0], read, limits, marks[1])


def open_zones(
    config: SandboxConfig | None, *, workspace: Path, user_home: Path, file: str, make: bool = True
) -> tuple[Zone, ...]:
    """The zones that a worker gets: those it declares, or the working directory when it declares none."""
    if config is None or config.zones is None:
        return (_default_zone(workspace, user_home, file),)
    declared = _declared(config, config.zones, workspace, user_home, file)
    return distinct(open_zone(zone, user_home=user_home, make=make) for zone in declared)


def open_zone(zone: Zone, *, user_home: Path, make: bool = True) -> Zone:
    """The zone with its root resolved and pinned, and made when it may be written; refused where no zone may lie.

    Without ``make`` nothing on disk changes, and what could not be made is refused all the same.
    """
    root = _resolved(zone)
    if refusal := roots.refusal(root, user_home):
        raise WorkerError(zone.where, f"zone '{zone.name}': {refusal}", hint="name a folder of its own")
    if zone.mode is ZoneMode.RW and not os.path.lexists(root):
        return _made(zone, root, make=make)
    try:
        found = os.stat(root)
    except OSError as error:
        reason = error.strerror or str(error)
        hint = "make it first, or declare the zone with 'mode: rw'" if isinstance(error, FileNotFoundError) else None
        raise WorkerError(zone.where, f"zone '{zone.name}': {shown(str(root))}: {reason}", hint=hint) from None
    if not stat.S_ISDIR(found.st_mode):
        raise WorkerError(zone.where, f"zone '{zone.name}': {shown(str(root))} is not a folder")
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
            message = f"zones '{other.name}' and '{zone.name}' are the same folder, {shown(str(zone.path))}"
            raise WorkerError(zone.where, message, hint="keep one of them")
    return opened


def _identity(root: Path) -> tuple[int, int] | Path:
    """What a folder is on disk; before it is made, the path that it will have."""
    try:
        found = os.stat(root)
    except FileNotFoundError:
        return root
    return found.st_dev, found.st_ino


def _declared(
    config: SandboxConfig, zones: list[ZoneConfig], workspace: Path, user_home: Path, file: str
) -> Iterator[Zone]:
    for index, entry in enumerate(zones):
        where = config.where("zones", index) or Mark(file)
        yield Zone(
            name=entry.name,
            path=workspace / _expanded(entry.path or entry.name, user_home),
            mode=entry.mode,
            approval=ZoneApproval(entry.approval.write, entry.approval.delete),
            where=where,
            write_where=config.where("zones", index, "approval", "write") or where,
            delete_where=config.where("zones", index, "approval", "delete") or where,
        )


def _default_zone(workspace: Path, user_home: Path, file: str) -> Zone:
    root = Path(os.path.realpath(workspace))
    hint = f"use -C DIR, or declare zones in {visible(file)}"
    if refusal := roots.refusal(root, user_home):
        raise WorkerError(None, f"the working directory cannot be the default zone: {refusal}", hint=hint)
    if not root.is_dir():
        raise WorkerError(None, f"the working directory {shown(str(root))} is not a folder", hint=hint)
    return Zone(DEFAULT_ZONE, root, ZoneMode.RW, default=True)


def _expanded(path: str, user_home: Path) -> Path:
    if path == "~" or path.startswith("~/"):
        return user_home / path[1:].lstrip("/")
    return Path(path)


def _resolved(zone: Zone) -> Path:
    try:
        return Path(os.path.realpath(zone.path))
    except (OSError, ValueError) as error:
        raise WorkerError(zone.where, f"zone '{zone.name}': {shown(str(zone.path))}: {error}") from None


def _made(zone: Zone, root: Path, *, make: bool) -> Zone:
    problem = roots.make(root) if make else roots.unmakeable(root)
    if problem:
        raise WorkerError(zone.where, f"zone '{zone.name}': {shown(str(root))} cannot be made: {problem}")
    return replace(zone, path=root, made=make)
