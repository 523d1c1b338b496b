"""The ``sandbox`` key of a worker file: zones, isolation, network and limits."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from forge_cli.core.approval import Approval
from forge_cli.core.zones import ZoneMode
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.processes.limits import DEFAULT_LIMITS, NO_LIMITS, ProcessLimits
from forge_cli.sandbox.zones.zones import Isolation, IsolationLevel, expand_home, require_zone_name
from forge_cli.schema.config import Config

if TYPE_CHECKING:
    from forge_cli.sandbox.network.rules import NetworkRules

_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
LEAST = 2**20
"""The smallest limit, in bytes; below it, no program would start."""


def read_size(value: object) -> object:
    """Return a size in bytes, given as a number or as ``512m`` or ``4g``."""
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"([0-9]+)([kmgt]?)", value.strip().lower())
    if not found:
        raise ValueError(
            f"{shown(value)} is not a size; write bytes, or a number with k, m, g or t, as in 4g"
        )
    return int(found[1]) << _UNITS[found[2]]


_WRITTEN = WithJsonSchema(
    {"type": ["integer", "string"], "pattern": "^[0-9]+[kmgtKMGT]?$", "minimum": LEAST}
)
Size = Annotated[int, BeforeValidator(read_size), Field(ge=LEAST), _WRITTEN]


class LimitsConfig(Config):
    """Limits of one command with everything it starts."""

    processes: Annotated[int, Field(ge=1)] | None = None
    """Number of processes; 512 by default."""
    memory: Size | None = None
    """Memory in bytes, or as 512m or 4g; 4g by default."""
    file_size: Size | None = None
    """Size of the largest file; 2g by default."""

    def limits(self) -> ProcessLimits:
        return ProcessLimits(self.processes, self.memory, self.file_size)


class ZoneApprovalConfig(Config):
    """Consent in a zone; reading needs none."""

    write: Approval = Approval.ASK
    """Whether writing a file asks."""
    delete: Approval = Approval.ASK
    """Whether deleting a file asks."""


class ZoneConfig(Config):
    """One entry of ``sandbox.zones``."""

    name: str
    """Name of the zone; tools see it as /NAME."""
    path: str | None = Field(default=None, min_length=1)
    """Folder of the zone, relative to the working directory; by default, the one named like the
    zone."""
    mode: ZoneMode = ZoneMode.RO
    """Whether the zone is only read, or written too."""
    approval: ZoneApprovalConfig = ZoneApprovalConfig.empty()
    """Which accesses need consent."""

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        return require_zone_name(name)

    @field_validator("path", mode="before")
    @classmethod
    def _is_written(cls, path: object) -> object:
        if path is None:
            raise ValueError("'~' alone is null in YAML; name a folder, or remove the key")
        return path


def _true_or_false(value: object) -> object:
    if not isinstance(value, bool):
        raise ValueError("must be true, false, or a list of names such as [api.example.org]")
    return value


def _read_rule(text: str) -> str:
    from forge_cli.sandbox.network.rules import NetworkRule

    NetworkRule.read(text)
    return text


def _network_form(value: object) -> str:
    if isinstance(value, list):
        return "[names]"
    return "[all]"


NetworkConfig = Annotated[
    Annotated[bool, BeforeValidator(_true_or_false), Tag("[all]")]
    | Annotated[list[Annotated[str, AfterValidator(_read_rule)]], Tag("[names]")],
    Discriminator(_network_form),
]
"""The tags in brackets are removed from the location of an error."""


class DraftConfig(Config):
    """The ``sandbox.draft`` key with a limit."""

    size: Size
    """The most that a draft may hold, in bytes or as 5g."""


def _draft_form(value: object) -> str:
    return "[bounds]" if isinstance(value, (dict, DraftConfig)) else "[switch]"


def _on_or_off(value: object) -> object:
    if not isinstance(value, bool):
        raise ValueError("must be true, false, or a limit such as {size: 5g}")
    return value


DraftSetting = Annotated[
    Annotated[bool, BeforeValidator(_on_or_off), Tag("[switch]")]
    | Annotated[DraftConfig, Tag("[bounds]")],
    Discriminator(_draft_form),
]
"""Whether sessions are drafts, with their limits."""


class SandboxConfig(Config):
    """The ``sandbox`` key of a worker.

    Without ``zones``, the default zone stays; an empty list means none.
    """

    zones: list[ZoneConfig] | None = None
    """Folders that tools can reach; by default, only the working directory."""
    isolation: IsolationLevel = IsolationLevel.AUTO
    """Whether the operating system confines child processes."""
    network: NetworkConfig | None = None
    """Whether a confined process has the network, or the names it reaches without asking."""
    read: list[str] = Field(default=[])
    """Hidden parts of your home that confined processes may read."""
    limits: LimitsConfig = LimitsConfig.empty()
    """Limits of one command."""
    draft: DraftSetting = False
    """Whether every session works on a copy-on-write view of the zones, reviewed at its end."""

    @field_validator("read")
    @classmethod
    def _are_absolute(cls, paths: list[str]) -> list[str]:
        for path in paths:
            if not expand_home(path, Path("/")).is_absolute():
                raise ValueError(f"{shown(path)} is not an absolute path; begin it with / or ~/")
        return paths

    @model_validator(mode="after")
    def _can_keep_names_apart(self) -> Self:
        if isinstance(self.network, list) and self.isolation is IsolationLevel.OFF:
            raise ValueError(
                "network lists names, which need confined commands, but isolation is off"
            )
        return self

    def wanted(self) -> Isolation:
        said = self.isolation.network if self.network is None else self.network
        if isinstance(said, list):
            from forge_cli.sandbox.network.rules import NetworkRules

            reached: bool | NetworkRules = NetworkRules.read(said)
        else:
            reached = said
        read = tuple(Path(os.path.expanduser(path)) for path in self.read)
        unsaid = NO_LIMITS if self.isolation is IsolationLevel.OFF else DEFAULT_LIMITS
        limits = self.limits.limits() | unsaid
        marks = (self.where("isolation"), self.where("network"))
        return Isolation(self.isolation, reached, marks[0], read, limits, marks[1])
