"""Where a tool comes from and who may call it, in the words that lists of tools show."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

ToolMode = Literal["llm", "manual", "both"]
SourceKind = Literal["builtin", "package", "local", "external", "executable", "mcp"]
GROUP = "forge"
"""The group of entry points that plugins are found by."""
OWN = "forge-workers"
"""The distribution of forge itself."""


@dataclass(frozen=True)
class Source:
    """Where a tool came from; shown to people, never branched on."""

    kind: SourceKind
    origin: str
    distribution: str | None = field(default=None, compare=False)
    """The package that it is part of, or the file as the worker spells it."""

    def __str__(self) -> str:
        return f"{self.kind} {self.origin}"


def canonical(distribution: str) -> str:
    """The name as package indexes compare it: ``Forge_Tools.Web`` is ``forge-tools-web``."""
    return re.sub(r"[-_.]+", "-", distribution.strip()).lower()
