"""The transports for MCP clients: standard streams, and HTTP with a token."""

from __future__ import annotations

import hmac
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TextIO

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from starlette.responses import PlainTextResponse

from forge_cli.apps.serve.protocol import McpRequests
from forge_cli.apps.serve.served import ServedWorker
from forge_cli.cli.notices import warn
from forge_cli.core.bounds import ForcedEnd
from forge_cli.core.errors import ExitCode, UsageError
from forge_cli.core.interrupt import Interrupted
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.files.worker import Worker
from forge_cli.process.client_lines import ClientLines, is_lost, own_input, request_id
from forge_cli.process.signals import interruptible
from forge_cli.process.watchdog import say_fault
from forge_cli.record.changes import remove_session
from forge_cli.ui.http import Headers, let_in, open_socket, read_headers
from forge_cli.ui.warnings import warn_of_events

Incoming = ObjectReceiveStream[SessionMessage | Exception]
Outgoing = ObjectSendStream[SessionMessage]
LINE_MAX = 10 * 1024 * 1024
"""Bytes of one message."""
CLOSE_TIMEOUT = 1.0
"""Seconds to answer open requests after the input has ended."""


class Messages:
    """The messages of one client, read from ``descriptor`` and written to ``out``."""

    def __init__(self, descriptor: int, out: TextIO) -> None:
        self._lines = ClientLines(descriptor, out)
        self._unanswered: set[str | int] = set()
        self._answered = anyio.Event()

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[Incoming, Outgoing]]:
        """Yield the streams that the SDK reads and writes."""
        arriving, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, leaving = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read, arriving)
            tasks.start_soon(self._write, leaving)
            try:
                yield incoming, outgoing
            finally:
                tasks.cancel_scope.cancel()

    async def _read(self, arriving: ObjectSendStream[SessionMessage | Exception]) -> None:
        async with arriving:
            async for line in self._lines.read():
                if len(line) > LINE_MAX:
                    told = f"a message may have {LINE_MAX >> 20} MiB at most"
                    await self._complain(INVALID_REQUEST, told, request_id(line))
                    continue
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except (ValueError, RecursionError):
                    await self._complain(
                        PARSE_ERROR, "this line is not a JSON-RPC message", request_id(line)
                    )
                    continue
                if isinstance(message, JSONRPCRequest):
                    self._unanswered.add(message.id)
                await arriving.send(SessionMessage(message))
            # the client writes no more, but may still read the last answers
            with anyio.move_on_after(CLOSE_TIMEOUT):
                while self._unanswered:
                    await self._answered.wait()
                    self._answered = anyio.Event()

    async def _write(self, leaving: ObjectReceiveStream[SessionMessage]) -> None:
        async with leaving:
            async for sent in leaving:
                await self._put(sent.message)
                if (
                    isinstance(sent.message, JSONRPCResponse | JSONRPCError)
                    and sent.message.id is not None
                ):
                    self._unanswered.discard(sent.message.id)
                    self._answered.set()

    async def _complain(self, code: int, sentence: str, request: str | int | None = None) -> None:
        await self._put(
            JSONRPCError(jsonrpc="2.0", id=request, error=ErrorData(code=code, message=sentence))
        )

    async def _put(self, message: Any) -> None:
        await self._lines.write(message.model_dump_json(by_alias=True, exclude_unset=True))


HOST = "127.0.0.1"
PATH = "/mcp"
BODY_MAX = 10 * 1024 * 1024
"""Bytes of one request."""
MAX_SESSIONS = 100


class HttpListener:
    """A local socket, and the token that clients have to send."""

    def __init__(self, port: int) -> None:
        self.socket = open_socket(HOST, port, "--http", UsageError)
        self.port: int = self.socket.getsockname()[1]
        self.token = secrets.token_urlsafe(32)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}{PATH}"

    def refuses(self, headers: Headers) -> tuple[int, str] | None:
        """Return status and reason if a request comes from a web page or lacks the token."""
        names = [f"{HOST}:{self.port}", f"localhost:{self.port}"]
        # a web page whose domain resolves to 127.0.0.1 (DNS rebinding) sends its own host name
        hosts = headers.get("host", [])
        if len(hosts) != 1 or hosts[0] not in names:
            return 403, "this server is reached as 127.0.0.1 or localhost only"
        own_origins = [f"http://{name}" for name in names]
        for origin in headers.get("origin", []):
            if origin not in own_origins:
                return 403, "requests from web pages are refused"
        given = headers.get("authorization", [])
        credentials = given[0] if len(given) == 1 else ""
        scheme, _, token = credentials.partition(" ")
        # the comparison takes the same time for every token, so that guesses learn nothing
        if scheme.lower() != "bearer" or not hmac.compare_digest(
            token.strip().encode(), self.token.encode()
        ):
            return 401, "the token is missing or wrong; the server printed it when it started"
        return None


class TokenGate:
    """ASGI middleware that passes only permitted requests to the server."""

    def __init__(self, app: Any, listener: HttpListener) -> None:
        self._app = app
        self._listener = listener

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        refused = self._listener.refuses(read_headers(scope))
        if refused is None and scope["path"] == PATH:
            let_in(scope)
            await self._app(scope, receive, send)
            return
        status, sentence = refused or (404, f"not found; use {PATH}")
        more = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        await PlainTextResponse(f"{sentence}\n", status, headers=more)(scope, receive, send)


async def serve_http(server: Server[Any], listener: HttpListener, stop: anyio.Event) -> None:
    """Serve until ``stop``; then give connections a moment to end."""
    # slow to import, and standard streams do not need it
    from forge_cli.ui.server import new_server

    manager = StreamableHTTPSessionManager(
        server, max_request_body_size=BODY_MAX, max_sessions=MAX_SESSIONS
    )
    running = new_server(TokenGate(manager.handle_request, listener))

    async def stop_server() -> None:
        await stop.wait()
        running.should_exit = True

    async with manager.run(), anyio.create_task_group() as tasks:
        tasks.start_soon(stop_server)
        await running.serve(sockets=[listener.socket])
        tasks.cancel_scope.cancel()


async def serve(
    asked: RunOptions, worker: Worker, named: bool, http: int | None, out: TextIO
) -> ExitCode:
    """Serve until the client leaves or a signal arrives; over HTTP if ``http`` is a port."""
    listener = HttpListener(http) if http is not None else None
    stop = anyio.Event()
    reasons = list[str]()

    def end(reason: str) -> None:
        reasons.append(reason)
        served.end(reason)
        stop.set()

    host = asked.host(worker)
    with asked.open_session(worker, warn) as session:
        served = ServedWorker(asked, worker, host, session, takes_tasks=named)
        warn_of_events(served.bus)

        def leave(end: ForcedEnd) -> int:
            """Finish without the event loop, because third-party code blocks the process."""
            served.end_now(end)
            session.close_log()
            return say_fault(end)

        with interruptible(end, leave=leave):
            async with served:
                requests = McpRequests(served, host.renderer)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(requests.watch_tools)
                    if listener is None:
                        await _serve_streams(requests, out, stop)
                    else:
                        _say_where(worker, listener)
                        await serve_http(requests.server(), listener, stop)
                    tasks.cancel_scope.cancel()
    if session.log and not served.made:  # clients start servers that they never use
        remove_session(session.log.path)
    return Interrupted(reasons[0]).exit_code if reasons else ExitCode.DONE


async def _serve_streams(requests: McpRequests, out: TextIO, stop: anyio.Event) -> None:
    """Serve one client until it closes its end, or until ``stop``."""
    server = requests.server()
    try:
        with own_input() as descriptor:
            async with (
                Messages(descriptor, out).streams() as streams,
                anyio.create_task_group() as tasks,
            ):

                async def leave() -> None:
                    await stop.wait()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(leave)
                await server.run(*streams, server.create_initialization_options())
                tasks.cancel_scope.cancel()
    except BaseException as error:
        if not is_lost(error):
            raise


def _say_where(worker: Worker, listener: HttpListener) -> None:
    sys.stderr.write(
        f"forge: serving {worker.name} at {listener.url}\n"
        f"  every request needs the header  Authorization: Bearer {listener.token}\n"
        f"  press Ctrl+C to stop\n"
    )
    sys.stderr.flush()
