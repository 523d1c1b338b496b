"""Pins of approved tools of MCP servers: one that is described in other words since asks again."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from forge_cli.core.approval import Approval, Verdict
from forge_cli.core.context import ToolContext
from forge_cli.core.errors import ForgeError
from forge_cli.core.results import Diff
from forge_cli.core.text import cut, visible
from forge_cli.core.tool import Args, Preview
from forge_cli.files.mcp import McpServer
from forge_cli.files.trust import TrustStore
from forge_cli.schema.toolset import ToolsetEnv
from forge_cli.toolsets.mcp.kept import ServerTool

LINES = 40
"""Of a difference that is shown."""


@dataclass(frozen=True)
class ToolChange:
    """A tool is not what was approved."""

    tool: str
    approved: Mapping[str, Any]
    now: Mapping[str, str]

    @property
    def verdict(self) -> Verdict:
        """Asks, even if the worker allows it."""
        parts = [part for part in self.now if self.approved.get(part) != self.now[part]]
        reason = f"its {' and '.join(parts)} changed since it was approved, so it asks again"
        difference = difflib.unified_diff(_text(self.approved).splitlines(), _text(self.now).splitlines(), n=0)
        lines = [visible(cut(line.rstrip("\n"), 300, "end")) for line in list(difference)[2 : LINES + 2]]
        return Verdict(Approval.ASK, reason, by="memory", details=tuple(lines))

    async def preview(self, args: Args, context: ToolContext) -> Preview:
        difference = Diff.of(self.tool, _text(self.approved), _text(self.now))
        return Preview(difference, recap="what was approved, and what it is now")


class Pins:
    """The pins of the tools of one server, as one worker names it."""

    def __init__(self, env: ToolsetEnv, name: str, server: McpServer) -> None:
        self._store = TrustStore(env.home)
        self._key = f"{os.path.realpath(env.worker_dir)}:{env.worker}:{name}"
        self._address = server.identity
        self._known = self._store.pins(self._key)

    def drift(self, tool: ServerTool) -> ToolChange | None:
        """The change of a tool that was approved; None where there is none, or it never was."""
        known, now = self._known.get(tool.name), self._describe(tool)
        return None if known is None or known == now else ToolChange(tool.name, known, now)

    def keep(self, tool: ServerTool) -> bool:
        """The tool as it is now was approved; returns whether that is news."""
        now = self._describe(tool)
        if self._known.get(tool.name) == now:
            return False
        self._known[tool.name] = now
        with suppress(OSError, ForgeError):  # a home that cannot be written: then the next session asks
            self._store.pin(self._key, tool.name, now)
        return True

    def _describe(self, tool: ServerTool) -> dict[str, str]:
        return {
            "address": self._address,
            "description": tool.description,
            "schema": json.dumps(tool.input_schema, sort_keys=True, indent=1),
        }


def _text(pin: Mapping[str, Any]) -> str:
    return "".join(f"{pin.get(part, '')}\n" for part in ("address", "description", "schema"))
