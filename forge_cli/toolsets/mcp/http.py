"""Messages of the Model Context Protocol over streamable HTTP."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from forge_cli.files.mcp import McpServer
from forge_cli.toolsets.mcp.sent import when_sent

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import TransportStreams

UNAUTHORIZED = 401


@asynccontextmanager
async def http_transport(
    server: McpServer,
    headers: Mapping[str, str],
    auth: httpx2.Auth | None = None,
    refused: Callable[[], None] = lambda: None,
) -> AsyncIterator[TransportStreams]:
    """The streams of messages from and to a server; redirects to another origin are not followed.

    ``refused`` is called where the server does not take what authorises a request, or the lack of it.
    """
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    silence_sdk()
    url = httpx2.URL(str(server.url))

    async def notice(request: httpx2.Request) -> None:
        sent = when_sent()

        async def trace(step: str, details: Any) -> None:
            if step.endswith("send_request_headers.started"):
                sent()

        request.extensions = {**request.extensions, "trace": trace}

    async def look(response: httpx2.Response) -> None:
        if response.status_code == UNAUTHORIZED and response.url == url:
            refused()

    timeout = httpx2.Timeout(server.connect_timeout, read=server.timeout)
    hooks: dict[str, list[Callable[..., Any]]] = {"request": [notice], "response": [look]}
    async with (
        httpx2.AsyncClient(headers=dict(headers), timeout=timeout, event_hooks=hooks, auth=auth) as client,
        streamable_http_client(str(server.url), http_client=client) as streams,
    ):
        yield streams


def silence_sdk() -> None:
    """Errors are told where they are handled; the log of the SDK would repeat it on standard error."""
    logger = logging.getLogger("mcp")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
