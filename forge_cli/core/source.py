"""Names that lists and files share: where a tool comes from, who may call it, and when a hook is called."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

ToolMode = Literal["llm", "manual", "both"]
SourceKind = Literal["builtin", "package", "local", "external", "executable", "mcp"]
HookName = Literal[
    "before_tool", "after_tool", "approval", "session_start", "session_end", "record"
]
"""The moment at which a hook of a person is called, which may be the observer of a plugin."""
GROUP = "forge"
"""The group of entry points that plugins are found by."""
OWN = "forge-workers"
"""The distribution of forge itself."""


@dataclass(frozen=True)
class Source:
    """The origin of a tool; shown to people, and no verdict depends on it."""

    kind: SourceKind
    origin: str
    distribution: str | None = field(default=None, compare=False)
    """The package that it is part of, or the file as the worker spells it."""

    def __str__(self) -> str:
        return f"{self.kind} {self.origin}"


PYTHON = Source("local", "Python")
"""The origin of tools that a program hands to its worker."""


def canonical(distribution: str) -> str:
    """The name as package indexes compare it: ``Forge_Tools.Web`` is ``forge-tools-web``."""
    return re.sub(r"[-_.]+", "-", distribution.strip()).lower()
