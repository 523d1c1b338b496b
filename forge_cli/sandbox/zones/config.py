"""The ``sandbox`` part of a worker file: zones, isolation, network and limits."""

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
"""With less, nothing would even start."""


def read_size(value: object) -> object:
    """Bytes, as a number or as ``512m`` and ``4g``."""
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
    """The limits of one command, with everything it starts."""

    processes: Annotated[int, Field(ge=1)] | None = None
    """How many processes; 512 by default."""
    memory: Size | None = None
    """In bytes, or as 512m or 4g; 4g by default."""
    file_size: Size | None = None
    """How large a file may become; 2g by default."""

    def limits(self) -> ProcessLimits:
        return ProcessLimits(self.processes, self.memory, self.file_size)


class ZoneApprovalConfig(Config):
    """Consent in a zone; reading needs none."""

    write: Approval = Approval.ASK
    """For writing a file."""
    delete: Approval = Approval.ASK
    """For deleting one."""


class ZoneConfig(Config):
    """One entry of ``sandbox.zones``."""

    name: str
    """The zone is /NAME to tools."""
    path: str | None = Field(default=None, min_length=1)
    """Its folder, from the working directory; by default the one called like the zone."""
    mode: ZoneMode = ZoneMode.RO
    """The mode: reading, or writing too."""
    approval: ZoneApprovalConfig = ZoneApprovalConfig.empty()
    """The accesses that need consent."""

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        return require_zone_name(name)

    @field_validator("path", mode="before")
    @classmethod
    def _is_written(cls, path: object) -> object:
        if path is None:
            raise ValueError(
                "nothing is written here ('~' alone is nothing to YAML); name a folder, or leave it out"
            )
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
    return "[names]" if isinstance(value, list) else "[all]"


NetworkConfig = Annotated[
    Annotated[bool, BeforeValidator(_true_or_false), Tag("[all]")]
    | Annotated[list[Annotated[str, AfterValidator(_read_rule)]], Tag("[names]")],
    Discriminator(_network_form),
]
"""Leave out of the place of an error what is in brackets."""


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
    """The limits of one command."""

    @field_validator("read")
    @classmethod
    def _are_absolute(cls, paths: list[str]) -> list[str]:
        for path in paths:
            if not expand_home(path, Path("/")).is_absolute():
                raise ValueError(
                    f"{shown(path)} is not an absolute path, nor one that begins with ~/"
                )
        return paths

    @model_validator(mode="after")
    def _can_keep_names_apart(self) -> Self:
        if isinstance(self.network, list) and self.isolation is IsolationLevel.OFF:
            raise ValueError(
                "network lists names, which only hold for confined commands, and isolation is off"
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
