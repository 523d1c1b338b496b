"""Lines on standard streams as they come, and messages of a client, one a line, which no other code reads or writes."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TextIO

import anyio

from forge_cli.process.streams import OutputLost

PIECE = 1 << 16


class ClientLines:
    """The lines of one client, from ``descriptor`` and to ``out``."""

    def __init__(self, descriptor: int, out: TextIO) -> None:
        self._descriptor = descriptor
        self._out = out
        self._writing = anyio.Lock()

    async def write(self, text: str) -> None:
        """Write one line; OutputLost is raised where the reader is gone."""

        def write() -> None:
            self._out.write(text + "\n")
            self._out.flush()

        async with self._writing:
            # in a thread: a client that does not read must not hold up the others' calls, nor signals
            await anyio.to_thread.run_sync(write, abandon_on_cancel=True)

    async def read(self) -> AsyncIterator[bytes]:
        """Every line that is not empty, until the client closes its end."""
        async for line in read_lines(self._descriptor):
            if line.strip():
                yield line


def request_id(line: bytes) -> str | int | None:
    """The id of the request that a line would have been, where one can be seen."""
    try:
        found = json.loads(line).get("id")
    except (ValueError, RecursionError, AttributeError):
        return None
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None


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
    kind = os.fstat(descriptor).st_mode
    rest = bytearray()
    waits = stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or os.isatty(descriptor)
    while True:
        if waits:
            await anyio.wait_readable(descriptor)
        piece = os.read(descriptor, PIECE)
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
