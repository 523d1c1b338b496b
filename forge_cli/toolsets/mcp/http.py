"""Messages of the Model Context Protocol over streamable HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from forge_cli.files.mcp import McpServer
from forge_cli.toolsets.mcp.sent import when_sent

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams


@asynccontextmanager
async def http_transport(server: McpServer, headers: Mapping[str, str]) -> AsyncIterator[TransportStreams]:
    """The streams of messages from and to a server; redirects to another origin are not followed."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async def notice(request: httpx2.Request) -> None:
        sent = when_sent()

        async def trace(step: str, details: Any) -> None:
            if step.endswith("send_request_headers.started"):
                sent()

        request.extensions = {**request.extensions, "trace": trace}

    timeout = httpx2.Timeout(server.connect_timeout, read=server.timeout)
    hooks = {"request": [notice]}
    async with (
        httpx2.AsyncClient(headers=dict(headers), timeout=timeout, event_hooks=hooks) as client,
        streamable_http_client(str(server.url), http_client=client) as streams,
    ):
        yield streams
