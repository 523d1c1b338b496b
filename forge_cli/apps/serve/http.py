"""Streamable HTTP for MCP clients of this machine: only who knows the token gets through, and no web page does."""

from __future__ import annotations

import hmac
import secrets
from typing import TYPE_CHECKING, Any

import anyio

from forge_cli import ui
from forge_cli.core.errors import UsageError
from forge_cli.ui.http import Headers, let_in, open_socket, read_headers

if TYPE_CHECKING:
    from mcp.server import Server

HOST = "127.0.0.1"
PATH = "/mcp"
BODY_MAX = 10 * 1024 * 1024
"""Bytes of one request."""
MOST_SESSIONS = 100


class HttpListener:
    """A socket on this machine, and the token that its clients have to know."""

    def __init__(self, port: int) -> None:
        self.socket = open_socket(HOST, port, "--http", UsageError)
        self.port: int = self.socket.getsockname()[1]
        self.token = secrets.token_urlsafe(32)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}{PATH}"

    def refuses(self, headers: Headers) -> tuple[int, str] | None:
        """Why a request does not get through, if it does not: a page of the web, or somebody without the token."""
        names = [f"{HOST}:{self.port}", f"localhost:{self.port}"]
        if not (len(hosts := headers.get("host", [])) == 1 and hosts[0] in names):
            return 403, "this server is reached as 127.0.0.1 or localhost only"
        if any(origin not in [f"http://{name}" for name in names] for origin in headers.get("origin", [])):
            return 403, "no web page may use this server"
        given = headers.get("authorization", [])
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), self.token.encode()):
            return 401, "the token is missing or wrong; the server printed it when it started"
        return None


class TokenGate:
    """Lets requests through to the server that their sender is allowed to make, and nothing of any others."""

    def __init__(self, app: Any, listener: HttpListener) -> None:
        self._app, self._listener = app, listener

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        from starlette.responses import PlainTextResponse

        if scope["type"] != "http":
            return
        refused = self._listener.refuses(read_headers(scope))
        if refused is None and scope["path"] == PATH:
            let_in(scope)
            await self._app(scope, receive, send)
            return
        status, sentence = refused or (404, f"there is nothing but {PATH} here")
        more = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        await PlainTextResponse(f"{sentence}\n", status, headers=more)(scope, receive, send)


async def serve_http(server: Server[Any], listener: HttpListener, stop: anyio.Event) -> None:
    """Serve until ``stop``; then connections have a moment to end."""
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    manager = StreamableHTTPSessionManager(server, max_request_body_size=BODY_MAX, max_sessions=MOST_SESSIONS)
    running = ui.server.new_server(TokenGate(manager.handle_request, listener))

    async def stop_server() -> None:
        await stop.wait()
        running.should_exit = True

    async with manager.run(), anyio.create_task_group() as tasks:
        tasks.start_soon(stop_server)
        await running.serve(sockets=[listener.socket])
        tasks.cancel_scope.cancel()
