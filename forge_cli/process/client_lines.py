"""Messages of a client over standard streams, one a line, and lines read as they arrive."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TextIO

import anyio

from forge_cli.process.streams import OutputLost

READ_SIZE = 1 << 16
"""Bytes to read at once."""


class ClientLines:
    """The messages of one client, read from ``descriptor`` and written to ``out``."""

    def __init__(self, descriptor: int, out: TextIO) -> None:
        self._descriptor = descriptor
        self._out = out
        self._writing = anyio.Lock()

    async def write(self, text: str) -> None:
        """Write one line; raise OutputLost if the client no longer reads."""

        def write() -> None:
            self._out.write(text + "\n")
            self._out.flush()

        async with self._writing:
            # In a thread, because a client that does not read would block other calls, and signals.
            await anyio.to_thread.run_sync(write, abandon_on_cancel=True)

    async def read(self) -> AsyncIterator[bytes]:
        """Yield each nonempty line until the client closes the stream."""
        async for line in read_lines(self._descriptor):
            if line.strip():
                yield line


def request_id(line: bytes) -> str | int | None:
    """Return the id of an invalid request so that its error can be matched, or None."""
    try:
        found = json.loads(line).get("id")
    except (ValueError, RecursionError, AttributeError):
        return None
    if isinstance(found, bool) or not isinstance(found, str | int):
        return None
    return found


@contextmanager
def own_input() -> Iterator[int]:
    """Yield a private descriptor of standard input; other code then reads an empty one."""
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
    """Return True if the client has stopped reading."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_lost, error.exceptions))
    return isinstance(error, OutputLost)


async def read_lines(descriptor: int) -> AsyncIterator[bytes]:
    """Yield lines as they arrive, the last one even if it has no newline."""
    kind = os.fstat(descriptor).st_mode
    rest = bytearray()
    # epoll refuses regular files, which can always be read
    waits = stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or os.isatty(descriptor)
    while True:
        if waits:  # in the event loop, where Ctrl+C ends the wait
            await anyio.wait_readable(descriptor)
        piece = os.read(descriptor, READ_SIZE)
        *ends, last = piece.split(b"\n")
        for end in ends:
            line = bytes(rest + end)
            rest = bytearray()
            yield line
        rest += last
        if not piece:
            break
    if rest:
        yield bytes(rest)
