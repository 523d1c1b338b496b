"""Origins of tools, who may call them, and the moments of hooks."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

ToolMode = Literal["llm", "manual", "both"]
Output = Literal["untrusted", "trusted"]
"""What a tool says of its results: the text of strangers, or words that count."""
SourceKind = Literal["builtin", "package", "local", "external", "executable", "mcp"]
HookName = Literal[
    "before_tool", "after_tool", "approval", "session_start", "session_end", "record"
]
"""The event at which a person's hook or a plugin's observer is called."""
GROUP = "forge"
"""The entry point group of plugins."""
OWN = "forge-workers"
"""The distribution of forge itself."""


@dataclass(frozen=True)
class Source:
    """The origin of a tool, for people; no verdict depends on it."""

    kind: SourceKind
    origin: str
    distribution: str | None = field(default=None, compare=False)
    """The package of the tool, or its file as the worker spells it."""

    def __str__(self) -> str:
        return f"{self.kind} {self.origin}"


PYTHON = Source("local", "Python")
"""The origin of tools that a program passes to its worker."""


def canonical(distribution: str) -> str:
    """Return the normalized name: ``Forge_Tools.Web`` is ``forge-tools-web``."""
    return re.sub(r"[-_.]+", "-", distribution.strip()).lower()
