"""Messages of the Model Context Protocol: over the standard streams of a child process, one a line, and over HTTP."""

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
"""The problem of a tool, among its ``_meta``."""
_ON_SENT: ContextVar[Callable[[], None] | None] = ContextVar("on_sent", default=None)
LINE_MAX = 10 * 1024 * 1024
"""Bytes of one message."""
KEPT = 2 * LINE_MAX + 65536
"""Bytes of output that wait to be read."""


@asynccontextmanager
async def http_transport(
    server: McpServer,
    headers: Mapping[str, str],
    auth: httpx2.Auth | None = None,
    answered: Callable[[int, str, str], None] = lambda status, reason, challenge: None,
) -> AsyncIterator[TransportStreams]:
    """The streams of messages from and to a server; redirects to another origin are not followed.

    ``answered`` is called with the status of every answer to a message, and its reason, and what it wants
    to see first (``WWW-Authenticate``).
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
    """Errors are told where they are handled; the log of the SDK would repeat it on standard error."""
    logger = logging.getLogger("mcp")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())


@contextmanager
def noticing() -> Iterator[anyio.Event]:
    """The event is set when a request that is made within is on its way."""
    sent = anyio.Event()
    token = _ON_SENT.set(sent.set)
    try:
        yield sent
    finally:
        _ON_SENT.reset(token)


def when_sent() -> Callable[[], None]:
    """To be called by the transport, once the message that this very task hands over has been written."""
    return _ON_SENT.get() or (lambda: None)


class ServerStreams(Struct, frozen=True):
    """Take the output of a server that is not a message."""

    garbage: Callable[[str], None]
    """Gets each line that is not one."""
    stderr: Callable[[str], None]
    ended: Callable[[str], None]
    """Called once when nothing more will come, with the reason."""


@asynccontextmanager
async def child_transport(
    start: Callable[[], Child], told: ServerStreams
) -> AsyncIterator[TransportStreams]:
    """Start a server, and the streams of messages from and to it; leaving stops it with everything it started."""
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
                        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError:
                        if (request := _answered(line)) is None:
                            told.garbage(line)
                            continue
                        problem = ErrorData(code=PARSE_ERROR, message="not a JSON-RPC response")
                        message = JSONRPCError(jsonrpc="2.0", id=request, error=problem)
                    await arriving.send(SessionMessage(message))
                told.ended("it has ended" if child.exited.is_set() else "it closed its output")
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
                        sent()
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
            tasks.cancel_scope.cancel()  # an end that comes now is not the server's own
            with anyio.CancelScope(shield=True):
                await _stop(child)
                told.stderr(child.stderr.take())
                for stream in (incoming, outgoing):
                    await stream.aclose()


@asynccontextmanager
async def mended(
    transport: AbstractAsyncContextManager[TransportStreams], version: Callable[[], str]
) -> AsyncIterator[TransportStreams]:
    """The streams of a transport; a tool for which the SDK would refuse the whole list says what is wrong with it."""
    async with transport as (incoming, outgoing):
        yield _Incoming(incoming, version), outgoing


class _Incoming:
    """The messages of a server that speaks a version of the protocol, with its lists of tools mended."""

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
            with suppress(
                RuntimeError
            ):  # before there is a version, it is no list that was asked for
                version = self._version()
                result["tools"] = [self._told(tool, result, version) for tool in result["tools"]]
        return arrived

    def _told(self, tool: Any, result: Mapping[str, Any], version: str) -> Any:
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
    """The channel of the SDK: each message carries the name that its sender wants."""

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
    """The request that a line wants to be the answer of, though it is not a valid one."""
    try:
        message = json.loads(line)
        request = message["id"] if "result" in message or "error" in message else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return request if isinstance(request, str | int) else None


async def _lines(child: Child) -> AsyncIterator[str]:
    """The lines of its output; the last one need not be finished."""
    rest = ""
    while True:
        await child.stdout.wait_for_output()
        text = child.stdout.take()
        if not text and not child.running:
            if rest.strip():
                yield rest
            return
        *lines, rest = (rest + text).split("\n") if "\n" in text else (rest + text,)
        if len(rest) > LINE_MAX or any(len(line) > LINE_MAX for line in lines):
            raise _TooLong
        for line in lines:
            if line.strip():
                yield line


async def _stop(child: Child) -> None:
    """End of input is how a server learns that it is not needed; one that stays is stopped."""
    if child.stdin is not None:
        child.stdin.close()
    with anyio.move_on_after(2):
        await child.exited.wait()
    await child.stop()
