"""Transports of the Model Context Protocol: the standard streams of a child process, and HTTP."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self

import anyio
from anyio.abc import ObjectSendStream
from msgspec import Struct
from pydantic import ValidationError

from forge_cli.core.errors import ToolError
from forge_cli.files.mcp import McpServer
from forge_cli.sandbox.processes.child import Child

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import ReadStream, TransportStreams
    from mcp.shared.message import SessionMessage

UNAUTHORIZED, FORBIDDEN = 401, 403
MALFORMED = "forge/malformed"
"""The key in ``_meta`` for the problem of an invalid tool."""
_ON_SENT: ContextVar[Callable[[], None] | None] = ContextVar("on_sent", default=None)
LINE_MAX = 10 * 1024 * 1024
"""Bytes of one message."""
MAX_UNREAD = 2 * LINE_MAX + 65536
"""Bytes of unread output."""


@asynccontextmanager
async def http_transport(
    server: McpServer,
    headers: Mapping[str, str],
    auth: httpx2.Auth | None = None,
    answered: Callable[[int, str, str], None] = lambda status, reason, challenge: None,
) -> AsyncIterator[TransportStreams]:
    """Yield the message streams of an HTTP server; redirects to another origin are not followed.

    ``answered`` is called for every answer to a message with its status, its reason and its ``WWW-
    Authenticate`` header.
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
        # Not for requests of the authorization, nor for the stream that a GET opens.
        if response.request.method == "POST" and response.url == url:
            challenge = response.headers.get("www-authenticate", "")
            answered(response.status_code, response.reason_phrase, challenge)

    timeout = httpx2.Timeout(server.connect_timeout, read=server.timeout)
    hooks: dict[str, list[Callable[..., Any]]] = {"request": [notice], "response": [look]}
    async with (
        httpx2.AsyncClient(
            headers=dict(headers), timeout=timeout, event_hooks=hooks, auth=auth
        ) as client,
        streamable_http_client(str(server.url), http_client=client) as streams,
    ):
        yield streams


def silence_sdk() -> None:
    """Silence the SDK's log, because errors are reported where they are handled."""
    logger = logging.getLogger("mcp")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())


@contextmanager
def noticing() -> Iterator[anyio.Event]:
    """Yield an event that is set when a request made in this block is sent."""
    sent = anyio.Event()
    token = _ON_SENT.set(sent.set)
    try:
        yield sent
    finally:
        _ON_SENT.reset(token)


def when_sent() -> Callable[[], None]:
    """Return the function that the transport calls once the current task's message is written."""
    return _ON_SENT.get() or (lambda: None)


class ServerStreams(Struct, frozen=True):
    """Callbacks for the output of a server that is not a message."""

    garbage: Callable[[str], None]
    """Called with each line that is not a message."""
    stderr: Callable[[str], None]
    ended: Callable[[str], None]
    """Called once with the reason when no more output will come."""


@asynccontextmanager
async def child_transport(
    start: Callable[[], Child], told: ServerStreams
) -> AsyncIterator[TransportStreams]:
    """Start a server and yield its message streams; on exit, stop it and all its processes."""
    from mcp.shared.message import SessionMessage
    from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

    child = start()
    arriving, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](16)
    sending, leaving = anyio.create_memory_object_stream[tuple[Callable[[], None], SessionMessage]](
        0
    )
    outgoing = _Outgoing(sending)

    async def read_messages() -> None:
        async with arriving:
            try:
                async for line in _lines(child):
                    try:
                        # By the names of the protocol only, not by those of the SDK's fields.
                        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError:
                        if (request := _answered(line)) is None:
                            told.garbage(line)
                            continue
                        problem = ErrorData(code=PARSE_ERROR, message="not a JSON-RPC response")
                        message = JSONRPCError(jsonrpc="2.0", id=request, error=problem)
                    await arriving.send(SessionMessage(message))
                told.ended("it ended" if child.exited.is_set() else "it closed its output")
            except _TooLong as error:
                told.ended(str(error))
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                pass

    async def write_messages() -> None:
        async with leaving:
            async for sent, envelope in leaving:
                data = envelope.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    if child.stdin is not None:
                        await child.stdin.write(data.encode() + b"\n", timeout=None)
                        sent()  # from now on, a lost connection may have had an effect
                except ToolError as error:
                    told.ended(str(error))
                    await arriving.aclose()
                    return

    async def read_errors() -> None:
        while True:
            await child.stderr.wait_for_output()
            if text := child.stderr.take():
                told.stderr(text)
            elif not child.running:
                return

    async with anyio.create_task_group() as tasks:
        for task in (read_messages, write_messages, read_errors):
            tasks.start_soon(task)
        try:
            yield incoming, outgoing
        finally:
            tasks.cancel_scope.cancel()  # so that the end caused below is not reported as a loss
            with anyio.CancelScope(shield=True):
                await _stop(child)
                told.stderr(child.stderr.take())
                for stream in (incoming, outgoing):
                    await stream.aclose()


@asynccontextmanager
async def mended(
    transport: AbstractAsyncContextManager[TransportStreams], version: Callable[[], str]
) -> AsyncIterator[TransportStreams]:
    """Yield the streams of a transport with invalid tools replaced.

    The SDK would reject the whole list for one invalid tool. The replacement contains the problem.
    """
    async with transport as (incoming, outgoing):
        yield _Incoming(incoming, version), outgoing


class _Incoming:
    """The incoming messages of a server, with lists of tools repaired."""

    def __init__(
        self, inner: ReadStream[SessionMessage | Exception], version: Callable[[], str]
    ) -> None:
        self._inner = inner
        self._version = version

    async def receive(self) -> SessionMessage | Exception:
        return self._mend(await self._inner.receive())

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._mend(await self._inner.__anext__())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    def _mend(self, arrived: SessionMessage | Exception) -> SessionMessage | Exception:
        result = getattr(getattr(arrived, "message", None), "result", None)
        if isinstance(result, dict) and isinstance(result.get("tools"), list):
            with suppress(RuntimeError):  # no version yet, so it is no answer to a request
                version = self._version()
                result["tools"] = [self._repair(tool, result, version) for tool in result["tools"]]
        return arrived

    def _repair(self, tool: Any, result: Mapping[str, Any], version: str) -> Any:
        from mcp_types.methods import validate_server_result

        try:
            validate_server_result("tools/list", version, {**result, "tools": [tool]})
        except ValidationError as error:
            wrong = error.errors()[0]
            name = tool.get("name") if isinstance(tool, dict) else None
            problem = f"{'.'.join(map(str, wrong['loc'][2:])) or 'the tool'}: {wrong['msg']}"
            return {
                "name": str(name or "?"),
                "inputSchema": {"type": "object"},
                "_meta": {MALFORMED: problem},
            }
        return tool


class _Outgoing:
    """The outgoing messages; each carries the callback of its sender."""

    def __init__(self, inner: ObjectSendStream[tuple[Callable[[], None], SessionMessage]]) -> None:
        self._inner = inner

    async def send(self, item: SessionMessage) -> None:
        await self._inner.send((when_sent(), item))

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()


class _TooLong(Exception):
    def __init__(self) -> None:
        super().__init__(f"it wrote a message of more than {LINE_MAX >> 20} MiB")


def _answered(line: str) -> str | int | None:
    """Return the id of the request that an invalid answer refers to, or None."""
    try:
        message = json.loads(line)
        request = message["id"] if "result" in message or "error" in message else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return request if isinstance(request, str | int) else None


async def _lines(child: Child) -> AsyncIterator[str]:
    """Yield the lines of the output; the last one may lack a newline."""
    rest = ""
    while True:
        await child.stdout.wait_for_output()
        text = child.stdout.take()
        if not text and not child.running:
            if rest.strip():
                yield rest
            return
        *lines, rest = (rest + text).split("\n")
        if len(rest) > LINE_MAX or any(len(line) > LINE_MAX for line in lines):
            raise _TooLong
        for line in lines:
            if line.strip():
                yield line


async def _stop(child: Child) -> None:
    """Close the input, which asks a server to end, and stop it if it does not."""
    if child.stdin is not None:
        child.stdin.close()
    with anyio.move_on_after(2):
        await child.exited.wait()
    await child.stop()
