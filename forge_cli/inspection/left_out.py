"""Toolsets that leave out what is not sound or not known, and what they say of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, runtime_checkable

from forge_cli.core.source import Source
from forge_cli.engine.gate.toolbox import Toolbox


@runtime_checkable
class Troubled(Protocol):
    """A toolset that can tell of each name that it leaves out where that lies and what is wrong."""

    def left_out(self) -> Mapping[str, tuple[Source, str]]: ...


def left_out(toolbox: Toolbox) -> Iterator[tuple[str, str, Source, str]]:
    """Tools that the toolsets of a worker leave out: the toolset, the name, the source, and the reason."""
    for each in toolbox.toolsets:
        if isinstance(each.toolset, Troubled):
            for name, (source, problem) in each.toolset.left_out().items():
                yield each.name, name, source, problem


def why_missing(toolbox: Toolbox, tool: str) -> str | None:
    """Why there is no tool of this name, where it, or the MCP server that would have it, is left out."""
    for _, name, source, problem in left_out(toolbox):
        if name == tool:
            return f"{name}: {problem}"
        if name == source.origin and f"{name}__" in tool:
            return f"the MCP server {name}: {problem}"
    return None


def servers_left_out(toolbox: Toolbox) -> list[str]:
    """The names of the MCP servers of which nothing is known."""
    return [
        name
        for _, name, source, _ in left_out(toolbox)
        if (source.kind, source.origin) == ("mcp", name)
    ]
