"""Messages of MCP clients over the standard streams, one a line; a line that is not one is answered as such."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO, cast

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream

from forge_cli.cli.streams import OutputLost

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

    Incoming = ObjectReceiveStream["SessionMessage | Exception"]
    Outgoing = ObjectSendStream["SessionMessage"]

LINE_MAX = 10 * 1024 * 1024
"""Bytes of one message."""
PIECE, END = 1 << 16, 4096
"""Bytes that are read at once, and that are kept of each end of a message that is too long."""
_STRING, _SCALAR = rb'"(?:[^"\\]|\\.)*"', rb'(?:"(?:[^"\\]|\\.)*"|[-+.\w]+)'
_ID = rb'"id"\s*:\s*(-?\d+|' + _STRING + rb")"
_ID_FIRST = re.compile(rb"\s*\{(?:\s*" + _STRING + rb"\s*:\s*" + _SCALAR + rb"\s*,)*?\s*" + _ID + rb"\s*[,}]")
_ID_LAST = re.compile(_ID + rb"\s*(?:,\s*" + _STRING + rb"\s*:\s*" + _SCALAR + rb"\s*)*\}\s*$")
LAST_ANSWERS = 1.0
"""Seconds that requests have to be answered after the end of the input."""


@dataclass(frozen=True)
class OverlongLine:
    """Stands for a line that is longer than a message may be, of which only the ends are kept."""

    head: bytes
    tail: bytes

    @property
    def request(self) -> str | int | None:
        """The id of the request that it is: of the message itself, not of anything in it; None where none is seen."""
        match = _ID_FIRST.match(self.head) or _ID_LAST.search(self.tail)
        with suppress(ValueError):
            return cast(str | int, json.loads(match[1])) if match else None
        return None


class Messages:
    """The messages of one client, from ``descriptor`` and to ``out``."""

    def __init__(self, descriptor: int, out: TextIO) -> None:
        self._descriptor, self._out = descriptor, out
        self._writing = anyio.Lock()
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
            async for line in self._lines():
                if isinstance(line, OverlongLine):
                    await self._complain(INVALID_REQUEST, f"a message has {LINE_MAX >> 20} MiB at most", line.request)
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
        line = message.model_dump_json(by_alias=True, exclude_unset=True) + "\n"

        def write() -> None:
            self._out.write(line)
            self._out.flush()

        async with self._writing:
            # in a thread: a client that does not read must not hold up the others' calls, nor signals
            await anyio.to_thread.run_sync(write, abandon_on_cancel=True)

    async def _lines(self) -> AsyncIterator[bytes | OverlongLine]:
        kept, head = bytearray(), b""
        """What is read of a line; where that is too long its end, and its beginning apart."""
        while piece := await self._piece():
            *ends, rest = piece.split(b"\n")
            for end in ends:
                kept += end
                if head or len(kept) > LINE_MAX:
                    yield OverlongLine(head or bytes(kept[:END]), bytes(kept[-END:]))
                elif kept.strip():
                    yield bytes(kept)
                kept, head = bytearray(), b""
            kept += rest
            if head or len(kept) > LINE_MAX:
                head, kept = head or bytes(kept[:END]), kept[-END:]
        if kept.strip() and not head:
            yield bytes(kept)

    async def _piece(self) -> bytes:
        try:
            await anyio.wait_readable(self._descriptor)
        except PermissionError:  # a file, which can be read at any time
            await anyio.lowlevel.checkpoint()
        return os.read(self._descriptor, PIECE)


@contextmanager
def own_input() -> Iterator[int]:
    """A descriptor for standard input that is ours alone; whoever else reads standard input finds it empty."""
    own = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    try:
        yield own
    finally:
        os.dup2(own, 0)
        os.close(own)


def is_lost(error: BaseException) -> bool:
    """Is it the client that has stopped reading?"""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_lost, error.exceptions))
    return isinstance(error, OutputLost)
