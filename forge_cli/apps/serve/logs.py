"""Log messages for MCP clients, filtered by the level that each client asked for."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from typing import Any

import mcp_types
from mcp import MCPDeprecationWarning
from mcp.server import ServerRequestContext

from forge_cli.apps.serve.calls import CallMessage

SEVERITY: tuple[mcp_types.LoggingLevel, ...] = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)
MAX_CLIENTS = 100


class ClientLogs:
    """Sender of log messages of calls; a client that has set no level gets none."""

    def __init__(self) -> None:
        self._levels: OrderedDict[str, int] = OrderedDict()
        """The minimum level of each older client; newer clients send it with each request."""

    async def set_level(
        self, context: ServerRequestContext[Any, Any], params: mcp_types.SetLevelRequestParams
    ) -> mcp_types.EmptyResult:
        self._levels[_client(context)] = SEVERITY.index(params.level)
        while len(self._levels) > MAX_CLIENTS:
            self._levels.popitem(last=False)
        return mcp_types.EmptyResult()

    async def send(
        self, message: CallMessage, text: str, tool: str, context: ServerRequestContext[Any, Any]
    ) -> None:
        """Send a message if its client wants it; for newer clients, the SDK filters."""
        level = self._levels.get(_client(context))
        older = context.session.can_send_request
        if older and (level is None or SEVERITY.index(message.level) < level):
            return
        with warnings.catch_warnings():
            # the newest protocol has no log messages, but clients still ask for them
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            # awaited below, because the filter is global and an await lets other tasks run
            sending = context.session.send_log_message(
                message.level, text, tool, context.request_id
            )
        await sending


def _client(context: ServerRequestContext[Any, Any]) -> str:
    """Return the id of the client's HTTP session; standard streams have only one client."""
    headers = getattr(context.request, "headers", {})
    return str(headers.get("mcp-session-id", ""))
