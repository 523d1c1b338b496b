"""A tool as a worker offers it, and how much of a model's window its definition takes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property

from forge_cli.core.source import Source
from forge_cli.engine.gate.policy import Policy
from forge_cli.schema.tool import Tool

BYTES_A_TOKEN = 3
"""A guess on the safe side; it counts only until the provider has counted."""

FIND_TOOLS = "find_tools"
"""The tool of forge that loads the definitions of others, and the toolset that has it alone."""
SERVERS = "mcp"
"""The toolset that holds the tools of all MCP servers."""
BUILT_IN = Source("builtin", "forge")
Group = tuple[str, str]
"""A toolset, and a kind of source or, among MCP servers, the server."""

_json_text = json.JSONEncoder(ensure_ascii=False).encode


def size_of(text: str) -> int:
    """In bytes, which say more about tokens than characters do."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def text_tokens(text: str) -> int:
    """The tokens of the window that a text takes, as a guess."""
    return size_of(text) // BYTES_A_TOKEN


def text_for_model(tool: Tool) -> str:
    """The description of a tool, and below it the feedback of people, which only the model of the worker reads."""
    feedback = getattr(tool, "feedback", "")
    return f"{tool.description}\n\n{feedback}" if feedback else tool.description


def definition_tokens(tool: Tool) -> int:
    """The tokens of the window that the definition of a tool takes, as a guess."""
    return text_tokens(f"{tool.name}{text_for_model(tool)}{_json_text(tool.schema.json_schema)}")


@dataclass(frozen=True, eq=False)
class Offer:
    """A tool as one worker offers it: under its name here, with the worker's policy for it."""

    tool: Tool
    toolset: str
    policy: Policy
    original: str = ""
    """The tool's name before ``prefix:``."""

    @cached_property
    def tokens(self) -> int:
        """The tokens of the window that the definition of its tool takes."""
        return definition_tokens(self.tool)

    @property
    def group(self) -> Group:
        """The tools that are deferred together: those of a toolset from one kind of source, or of one server."""
        source = self.tool.source or BUILT_IN
        return self.toolset, source.origin if self.toolset == SERVERS else source.kind
