"""Facts about a line from its text alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_GO_BUILD = re.compile(r"\bgo\s+(?:build|install)\b")


def compiles_a_tool(command: str, workspace: Path, home: Path) -> bool:
    """Return True if a line compiles a Go tool in forge's home, which forge compiles itself."""
    tools = home / "tools"
    named = (str(tools), "~/.forge/tools", "$HOME/.forge/tools")
    here = workspace.is_relative_to(tools) or any(name in command for name in named)
    return here and _GO_BUILD.search(command) is not None


def named_variable(command: str, names: Iterable[str]) -> str | None:
    """Return the first of some variables whose name is in a line."""
    return next(
        (name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", command)), None
    )
