"""The toolset ``guard``: judges addresses by host, and MCP tools by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import Field

from forge_cli import Approval, Args, ToolError, Toolset, ToolsetConfig, Verdict, hookimpl, tool

_PLAIN_URL = re.compile(
    r"https?://([a-z0-9-]+(?:\.[a-z0-9-]+)*)(?::[0-9]{1,5})?(?:[/?#][!-\[\]-~]*)?", re.ASCII
)
r"""URLs that all programs read alike, unlike ``https://a\@b``."""
Rules = dict[str, Approval]


class GuardConfig(ToolsetConfig):
    """Rules for hosts and MCP tools; the strictest match counts, and anything else asks."""

    hosts: Rules = Field(
        default_factory=dict,
        description="Approval by host; `*.example.org` is every name below it.",
    )
    confine: list[Literal["reading", "testing", "linting"]] = Field(
        default_factory=list,
        description="Rule sets of `shell` whose lines run as `forge guard run LINE`.",
    )
    mcp: Rules = Field(
        default_factory=dict, description="Approval by SERVER/TOOL, in which `*` is anything."
    )


class GuardToolset(Toolset[GuardConfig]):
    """Tools that are only judged, because another program executes them."""

    name = "guard"
    Config = GuardConfig
    judges_only = True

    def _url_approval(self, args: Args) -> Verdict:
        found = _PLAIN_URL.fullmatch(args["url"])
        if found is None:
            return Verdict(Approval.ASK, "its host cannot be told for sure", by="rule")
        return self._strictest("hosts", self.config.hosts, found[1])

    def _mcp_approval(self, args: Args) -> Verdict:
        return self._strictest("mcp", self.config.mcp, f"{args['server']}/{args['tool']}")

    def _strictest(self, section: str, rules: Mapping[str, Approval], name: str) -> Verdict:
        fitting = [pattern for pattern in rules if fnmatchcase(name, pattern)]
        if not fitting:
            return Verdict(
                Approval.ASK, f"nothing is said of {name}", f"toolsets.guard.{section}", by="rule"
            )
        said = Approval.strictest(*(rules[pattern] for pattern in fitting))
        pattern = next(pattern for pattern in fitting if rules[pattern] is said)
        rule, where = f"toolsets.guard.{section}.{pattern}", self.config.where(section, pattern)
        return Verdict(said, f"{name} fits '{pattern}'", rule, where, by="rule")

    @tool(needs_approval="_url_approval", effects=["network"])
    def open_url(self, url: Annotated[str, Field(description="The address.")]) -> str:
        """Fetch a page."""
        raise ToolError(_NOT_HERE)

    @tool(effects=["network"])
    def search_web(self, query: Annotated[str, Field(description="What to look for.")]) -> str:
        """Search the web."""
        raise ToolError(_NOT_HERE)

    @tool(needs_approval="_mcp_approval")
    def call_mcp(
        self,
        server: Annotated[str, Field(description="The MCP server, as the tool calls it.")],
        tool: Annotated[str, Field(description="One of its tools.")],
    ) -> str:
        """Call a tool of an MCP server."""
        raise ToolError(_NOT_HERE)


_NOT_HERE = "this is only judged here: the program that wants it does it itself"


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    """Offer the toolset."""
    return [GuardToolset]
