"""Lines on standard streams as they come, and messages of a client, one a line, which no other code reads or writes."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TextIO, cast

import anyio

from forge_cli.process.streams import OutputLost

LINE_MAX = 10 * 1024 * 1024
"""Bytes of one message."""
PIECE, END = 1 << 16, 4096
"""Bytes that are read at once, and that are kept of each end of a message that is too long."""
_STRING, _SCALAR = rb'"(?:[^"\\]|\\.)*"', rb'(?:"(?:[^"\\]|\\.)*"|[-+.\w]+)'
_ID = rb'"id"\s*:\s*(-?\d+|' + _STRING + rb")"
_ID_FIRST = re.compile(rb"\s*\{(?:\s*" + _STRING + rb"\s*:\s*" + _SCALAR + rb"\s*,)*?\s*" + _ID + rb"\s*[,}]")
_ID_LAST = re.compile(_ID + rb"\s*(?:,\s*" + _STRING + rb"\s*:\s*" + _SCALAR + rb"\s*)*\}\s*$")


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


class ClientLines:
    """The lines of one client, from ``descriptor`` and to ``out``; ``longest`` are the bytes that one may have."""

    def __init__(self, descriptor: int, out: TextIO, longest: int = LINE_MAX) -> None:
        self._descriptor, self._out, self._longest = descriptor, out, longest
        self._writing = anyio.Lock()

    async def write(self, text: str) -> None:
        """Write one line; OutputLost is raised where the reader is gone."""

        def write() -> None:
            self._out.write(text + "\n")
            self._out.flush()

        async with self._writing:
            # in a thread: a client that does not read must not hold up the others' calls, nor signals
            await anyio.to_thread.run_sync(write, abandon_on_cancel=True)

    async def read(self) -> AsyncIterator[bytes | OverlongLine]:
        """Every line that is not empty, until the client closes its end."""
        kept, head = bytearray(), b""
        """The part that is read of a line; of a long one its end, and its beginning apart."""
        while piece := await self._piece():
            *ends, rest = piece.split(b"\n")
            for end in ends:
                kept += end
                if head or len(kept) > self._longest:
                    yield OverlongLine(head or bytes(kept[:END]), bytes(kept[-END:]))
                elif kept.strip():
                    yield bytes(kept)
                kept, head = bytearray(), b""
            kept += rest
            if head or len(kept) > self._longest:
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
    """A descriptor for standard input that is ours alone; other readers of standard input find it empty."""
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


async def read_lines(descriptor: int) -> AsyncIterator[bytes]:
    """Lines as they come; pipes and terminals are waited for in the event loop, where Ctrl+C ends the waiting."""
    kind, rest = os.fstat(descriptor).st_mode, b""
    waits = stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or os.isatty(descriptor)
    while True:
        if waits:
            await anyio.wait_readable(descriptor)
        piece = os.read(descriptor, 65536)
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line
        if not piece:
            break
    if rest:
        yield rest
