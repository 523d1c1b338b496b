"""Facts that the text of a line gives away, whatever its commands are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_GO_BUILD = re.compile(r"\bgo\s+(?:build|install)\b")


def compiles_a_tool(command: str, workspace: Path, home: Path) -> bool:
    """Return True if a line compiles what forge, at ``home``, compiles by itself, as far as its text says."""
    tools = home / "tools"
    named = (str(tools), "~/.forge/tools", "$HOME/.forge/tools")
    here = workspace.is_relative_to(tools) or any(name in command for name in named)
    return here and _GO_BUILD.search(command) is not None


def named_variable(command: str, names: Iterable[str]) -> str | None:
    """Return the first of the variables that a line names, in whatever way."""
    return next(
        (name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", command)), None
    )
