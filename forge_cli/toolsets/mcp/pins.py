"""What was approved of the tools of MCP servers is pinned: one that is described in other words since asks again."""

from __future__ import annotations

import difflib
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from forge_cli.core.approval import Approval, Verdict
from forge_cli.core.text import cut, visible
from forge_cli.core.toolset import ToolsetEnv
from forge_cli.files.mcp import McpServer
from forge_cli.files.trust import TrustStore

if TYPE_CHECKING:
    import mcp_types

LINES = 40
"""Of a difference that is shown."""


class Pins:
    """The pins of the tools of one server, as one worker names it."""

    def __init__(self, env: ToolsetEnv, name: str, server: McpServer) -> None:
        self._store = TrustStore(env.home)
        self._key = f"{os.path.realpath(env.worker_dir)}:{env.worker}:{name}"
        self._address = server.identity
        self._known = self._store.pins(self._key)

    def drift(self, tool: mcp_types.Tool) -> Verdict | None:
        """A verdict that asks, where the tool is not what was approved; None where it is, or never was."""
        known = self._known.get(tool.name)
        now = self._describe(tool)
        if known is None or known == now:
            return None
        parts = [part for part in now if known.get(part) != now[part]]
        lines = difflib.unified_diff(_lines(known), _lines(now), "approved", "now", n=0, lineterm="")
        shown = [visible(cut(line, 300, "end")) for line in list(lines)[:LINES]]
        reason = f"its {' and '.join(parts)} changed since it was approved, so it asks again"
        return Verdict(Approval.ASK, reason, by="memory", details=tuple(shown))

    def keep(self, tool: mcp_types.Tool) -> bool:
        """The tool as it is now was approved; returns whether that is news."""
        now = self._describe(tool)
        if self._known.get(tool.name) == now:
            return False
        self._known[tool.name] = now
        with suppress(OSError):  # a home that cannot be written: then the next session asks
            self._store.pin(self._key, tool.name, now)
        return True

    def _describe(self, tool: mcp_types.Tool) -> dict[str, str]:
        return {
            "address": self._address,
            "description": tool.description or tool.title or "",
            "schema": json.dumps(tool.input_schema, sort_keys=True, indent=1),
        }


def _lines(pin: Any) -> list[str]:
    return "\n".join(str(pin.get(part, "")) for part in ("address", "description", "schema")).splitlines()
