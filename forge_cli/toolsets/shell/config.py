"""The sections ``toolsets.shell`` of a worker, and ``policy.shell`` of its user."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from forge_cli.core.approval import Approval
from forge_cli.schema.config import Config
from forge_cli.schema.toolset import ToolsetConfig
from forge_cli.toolsets.shell.opt_in import FolderSets
from forge_cli.toolsets.shell.rules import ShellRule

TrySetting = Literal["auto", "off", "required"]


class ShellConfig(ToolsetConfig):
    """``rules`` match the first words of each simple command; ``default`` is for what no rule covers."""

    rules: list[ShellRule] = Field(default=[])
    """The verdict on commands; blocked by any rule wins."""
    default: Approval = Approval.ASK
    """For what no rule covers."""
    timeout: Annotated[float, Field(gt=0)] = 30
    """Seconds for a command that says nothing else."""
    env: list[str] = Field(default=[])
    """Variables that commands see besides those of every child process."""
    try_first: TrySetting = Field(default="auto", alias="try")
    """Whether a command that would ask is done on a copy first; without an effect it does not ask."""


class UserRules(Config):
    """``policy.shell`` in the user's own config: rules that hold for every worker."""

    rules: list[ShellRule] = Field(default=[])
    """The verdict on commands, for every worker; the strictest match counts."""
    try_first: TrySetting = Field(default="auto", alias="try")
    """Whether commands are tried on a copy, for every worker."""
    folders: list[FolderSets] = Field(default=[])
    """Rule sets that hold in a folder, for every worker."""

    def with_folder(self, says: object) -> UserRules:
        """Return the rules with one more folder, as it stands in the config."""
        return self.model_copy(update={"folders": [*self.folders, FolderSets.model_validate(says)]})
