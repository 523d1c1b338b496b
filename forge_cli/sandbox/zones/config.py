"""The ``sandbox`` part of a worker file: zones, isolation, network and limits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, field_validator, model_validator

from forge_cli.core.approval import Approval
from forge_cli.core.config import Config
from forge_cli.core.zones import ZoneMode
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.network.rules import NetworkRule, NetworkRules
from forge_cli.sandbox.processes.limits import DEFAULT_LIMITS, NO_LIMITS
from forge_cli.sandbox.zones.limits import LimitsConfig
from forge_cli.sandbox.zones.zones import Isolation, IsolationLevel, checked_name, expanded


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
    """What is possible at all: reading, or writing too."""
    approval: ZoneApprovalConfig = ZoneApprovalConfig.empty()
    """What needs consent."""

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        return checked_name(name)


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
            if not expanded(path, Path("/")).is_absolute():
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
