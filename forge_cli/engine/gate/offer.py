"""Tools as a worker offers them, and the number of tokens that their definitions take."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property

from forge_cli.core.source import Source
from forge_cli.engine.gate.policy import Policy
from forge_cli.schema.tool import Tool

BYTES_A_TOKEN = 3
"""A low estimate, used only until the provider has counted."""

FIND_TOOLS = "find_tools"
"""The tool that loads the definitions of other tools, and the name of its toolset."""
SERVERS = "mcp"
"""The toolset with the tools of all MCP servers."""
BUILT_IN = Source("builtin", "forge")
Group = tuple[str, str]
"""A toolset, and a kind of source or the name of an MCP server."""

_json_text = json.JSONEncoder(ensure_ascii=False).encode


def size_of(text: str) -> int:
    """Return the size in bytes, a better measure of tokens than the number of characters."""
    if text.isascii():
        return len(text)
    # A surrogate without its partner cannot be encoded, hence "replace".
    return len(text.encode("utf-8", "replace"))


def text_tokens(text: str) -> int:
    """Return the estimated number of tokens of a text."""
    return size_of(text) // BYTES_A_TOKEN


def text_for_model(tool: Tool) -> str:
    """Return the description of a tool with people's feedback, for the worker's model."""
    feedback = getattr(tool, "feedback", "")
    if feedback:
        return f"{tool.description}\n\n{feedback}"
    return tool.description


def definition_tokens(tool: Tool) -> int:
    """Return the estimated number of tokens of the definition of a tool."""
    return text_tokens(f"{tool.name}{text_for_model(tool)}{_json_text(tool.schema.json_schema)}")


@dataclass(frozen=True, eq=False)
class Offer:
    """A tool of one worker, under its name there and with the worker's policy."""

    tool: Tool
    toolset: str
    policy: Policy
    original: str = ""
    """The name of the tool before ``prefix:``."""

    @cached_property
    def tokens(self) -> int:
        """The estimated number of tokens of its definition."""
        return definition_tokens(self.tool)

    @property
    def group(self) -> Group:
        """The tools that are deferred together: of a toolset and kind of source, or a server."""
        source = self.tool.source or BUILT_IN
        return self.toolset, source.origin if self.toolset == SERVERS else source.kind
