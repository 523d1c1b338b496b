"""Lines from a file, a pipe or a terminal, each as soon as it is there."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator

import anyio


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
