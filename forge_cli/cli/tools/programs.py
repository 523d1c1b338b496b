"""The tools of one's own that a command is about: those in ``~/.forge/tools``."""

from __future__ import annotations

from typing import Annotated

import typer

from forge_cli.files.home import forge_home
from forge_cli.toolsets.executables.manage import ExecutableManager

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The tool, in ~/.forge/tools.")]


def own_tools() -> ExecutableManager:
    return ExecutableManager(forge_home())
