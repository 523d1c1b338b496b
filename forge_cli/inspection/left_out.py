"""Tools that toolsets omit because they are invalid or unknown, and the reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, runtime_checkable

from forge_cli.core.source import Source
from forge_cli.engine.gate.toolbox import Toolbox


@runtime_checkable
class Troubled(Protocol):
    """A toolset that can report the place and the problem of each tool that it omits."""

    def left_out(self) -> Mapping[str, tuple[Source, str]]: ...


def left_out(toolbox: Toolbox) -> Iterator[tuple[str, str, Source, str]]:
    """Yield toolset, name, source and reason of each tool that a worker's toolsets omit."""
    for each in toolbox.toolsets:
        if isinstance(each.toolset, Troubled):
            for name, (source, problem) in each.toolset.left_out().items():
                yield each.name, name, source, problem


def why_missing(toolbox: Toolbox, tool: str) -> str | None:
    """Return why a tool is missing if it, or its MCP server, is omitted; else None."""
    for _, name, source, problem in left_out(toolbox):
        if name == tool:
            return f"{name}: {problem}"
        if name == source.origin and f"{name}__" in tool:
            return f"the MCP server {name}: {problem}"
    return None


def servers_left_out(toolbox: Toolbox) -> list[str]:
    """Return the names of the MCP servers whose tools are unknown."""
    return [
        name
        for _, name, source, _ in left_out(toolbox)
        if (source.kind, source.origin) == ("mcp", name)
    ]
