"""Messages of the Model Context Protocol over streamable HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from forge_cli.files.mcp import McpServer

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams


@asynccontextmanager
async def http_transport(server: McpServer, headers: Mapping[str, str]) -> AsyncIterator[TransportStreams]:
    """The streams of messages from and to a server; redirects to another origin are not followed."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    timeout = httpx2.Timeout(server.connect_timeout, read=server.timeout)
    async with (
        httpx2.AsyncClient(headers=dict(headers), timeout=timeout) as client,
        streamable_http_client(str(server.url), http_client=client) as streams,
    ):
        yield streams
