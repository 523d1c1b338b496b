"""The sections ``toolsets.shell`` of a worker and ``policy.shell`` of a user."""

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
    """Settings of the toolset ``shell`` in a worker."""

    rules: list[ShellRule] = Field(default=[])
    """Rules for commands; any rule that blocks wins."""
    default: Approval = Approval.ASK
    """The approval of commands that no rule covers."""
    timeout: Annotated[float, Field(gt=0)] = 30
    """The default time limit of a command in seconds."""
    env: list[str] = Field(default=[])
    """Environment variables that commands get in addition to the basic ones."""
    try_first: TrySetting = Field(default="auto", alias="try")
    """Whether a command that would ask is tried on a copy first; without an effect it does not."""


class UserRules(Config):
    """``policy.shell`` in the user's own config: settings for all workers."""

    rules: list[ShellRule] = Field(default=[])
    """Rules for commands in every worker; the strictest match counts."""
    try_first: TrySetting = Field(default="auto", alias="try")
    """Whether commands are tried on a copy, for every worker."""
    folders: list[FolderSets] = Field(default=[])
    """Rule sets to use in a folder, for every worker."""

    def with_folder(self, says: object) -> UserRules:
        """Return the settings with one more folder, given as in the config."""
        return self.model_copy(update={"folders": [*self.folders, FolderSets.model_validate(says)]})
