"""Messages of MCP clients over the standard streams, one a line; a line that is not one is answered as such."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TextIO

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream

from forge_cli.process.client_lines import ClientLines, request_id

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

    Incoming = ObjectReceiveStream["SessionMessage | Exception"]
    Outgoing = ObjectSendStream["SessionMessage"]

LINE_MAX = 10 * 1024 * 1024
"""Bytes of one message."""
LAST_ANSWERS = 1.0
"""Seconds that requests have to be answered after the end of the input."""


class Messages:
    """The messages of one client, from ``descriptor`` and to ``out``."""

    def __init__(self, descriptor: int, out: TextIO) -> None:
        self._lines = ClientLines(descriptor, out)
        self._unanswered: set[str | int] = set()
        self._answered = anyio.Event()

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[Incoming, Outgoing]]:
        """The streams that the SDK reads and writes."""
        arriving, incoming = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
        outgoing, leaving = anyio.create_memory_object_stream["SessionMessage"](0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read, arriving)
            tasks.start_soon(self._write, leaving)
            try:
                yield incoming, outgoing
            finally:
                tasks.cancel_scope.cancel()

    async def _read(self, arriving: ObjectSendStream[SessionMessage | Exception]) -> None:
        from mcp.shared.message import SessionMessage
        from mcp_types import INVALID_REQUEST, PARSE_ERROR, JSONRPCRequest, jsonrpc_message_adapter

        async with arriving:
            async for line in self._lines.read():
                if len(line) > LINE_MAX:
                    told = f"a message has {LINE_MAX >> 20} MiB at most"
                    await self._complain(INVALID_REQUEST, told, request_id(line))
                    continue
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except (ValueError, RecursionError):
                    await self._complain(PARSE_ERROR, "this line is not a JSON-RPC message")
                    continue
                if isinstance(message, JSONRPCRequest):
                    self._unanswered.add(message.id)
                await arriving.send(SessionMessage(message))
            with anyio.move_on_after(LAST_ANSWERS):
                while self._unanswered:
                    await self._answered.wait()
                    self._answered = anyio.Event()

    async def _write(self, leaving: ObjectReceiveStream[SessionMessage]) -> None:
        from mcp_types import JSONRPCError, JSONRPCResponse

        async with leaving:
            async for sent in leaving:
                await self._put(sent.message)
                if isinstance(sent.message, JSONRPCResponse | JSONRPCError) and sent.message.id is not None:
                    self._unanswered.discard(sent.message.id)
                    self._answered.set()

    async def _complain(self, code: int, sentence: str, request: str | int | None = None) -> None:
        from mcp_types import ErrorData, JSONRPCError

        await self._put(JSONRPCError(jsonrpc="2.0", id=request, error=ErrorData(code=code, message=sentence)))

    async def _put(self, message: Any) -> None:
        await self._lines.write(message.model_dump_json(by_alias=True, exclude_unset=True))
