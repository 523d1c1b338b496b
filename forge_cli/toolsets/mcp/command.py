"""``/mcp`` in a conversation: the servers as they are now, turned off and on, and connected again."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from forge_cli.core.errors import ToolError
from forge_cli.core.text import counted, did_you_mean, visible
from forge_cli.toolsets.mcp.connection import Connection

PATIENCE = 20.0
"""Seconds that a server is waited for; it may still come later."""


async def handle_command(connections: Sequence[Connection], args: Sequence[str]) -> list[str]:
    """Do what the arguments say; returns the result, in lines."""
    if not args:
        return [describe(each) for each in connections]
    if len(args) != 2 or args[0] not in ("off", "on", "reconnect"):
        raise ToolError(f"/mcp does not take '{visible(' '.join(args))}': it is /mcp [off|on|reconnect NAME]")
    action, name = args
    server = next((each for each in connections if each.name == name), None)
    if server is None:
        known = [each.name for each in connections]
        hint = did_you_mean(name, known, f"there are: {', '.join(known)}")
        raise ToolError(f"there is no MCP server '{visible(name)}'; {hint}")
    if action == "off":
        server.turn_off()
    elif action == "reconnect" or not server.connected:
        with anyio.move_on_after(PATIENCE):
            await server.reconnect()
    return [describe(server)]


def describe(server: Connection) -> str:
    """How it is with a server, in one line."""
    if server.off:
        state = "off"
    elif server.connected:
        state = f"connected, {counted(len(server.offer.tools), 'tool')}"
    else:
        state = f"not connected: {visible(server.why_not)}"
    return f"{server.name}: {state}"
