"""Streams of a child process: non-blocking input, and bounded output."""

from __future__ import annotations

import codecs
import locale
import os
import sys
from contextlib import suppress
from typing import Self

import anyio

from forge_cli.core.errors import ToolError

LIMIT = 1024 * 1024
"""Bytes of a stream that are kept until they are taken."""

_PIECE = 65536
# Pieces: a background process may write faster than they are read.
_MAX_DRAINED = 16


class Output:
    """The output of a process: every byte is returned once.

    If too many wait, the middle is dropped.

    The cut is marked in the text, and characters are never split.
    """

    def __init__(
        self, limit: int = LIMIT, errors: str = "replace", encoding: str = "utf-8"
    ) -> None:
        self.dropped = 0
        self._limit = limit
        self._head = bytearray()
        self._cut = 0
        self._tail = bytearray()
        self._closed = False
        self._awaited: anyio.Event | None = None
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)(errors)

    @classmethod
    def nothing(cls) -> Self:
        """Return a stream that has ended without output."""
        output = cls()
        output.close()
        return output

    @property
    def pending(self) -> bool:
        """True if there is something to take."""
        return bool(self._head or self._cut or self._tail)

    async def wait_for_output(self) -> None:
        """Wait until there is something to take, or the stream has ended."""
        while not (self.pending or self._closed):
            self._awaited = self._awaited or anyio.Event()
            await self._awaited.wait()

    def add(self, data: bytes) -> None:
        if self._cut or self._tail:
            self._tail += data
            if len(self._tail) > 2 * self._limit:
                self._shorten()
        else:
            self._head += data
            if len(self._head) > self._limit:
                kept = _character_start(self._head, self._limit // 2)
                self._tail = self._head[kept:]
                del self._head[kept:]
        self._wake()

    def close(self) -> None:
        """Mark the end, so that an incomplete character is replaced."""
        self._closed = True
        self._wake()

    def take(self, at_most: int | None = None) -> str:
        """Return the output since the last call, or its first bytes."""
        self._shorten()
        room = sys.maxsize if at_most is None else at_most
        text = ""
        while self.pending and room > 0:
            if not self._head:
                text += self._over_the_cut()
            piece = bytes(self._head[:room])
            del self._head[:room]
            room -= len(piece)
            text += self._decoder.decode(piece)
        if self._closed and not self.pending:
            text += self._decoder.decode(b"", final=True)
        return text

    def last(self, at_most: int) -> str:
        """Return the end of the output that waits, without taking it."""
        data = bytes((self._tail or self._head)[-at_most:])
        return codecs.decode(data, self._encoding, "replace")

    @property
    def size(self) -> int:
        """The number of bytes to take."""
        self._shorten()
        return len(self._head) + len(self._tail)

    def narrow(self, limit: int) -> None:
        """Reduce the limit, also for output that is already there."""
        if self.size > limit:
            kept = _character_start(self._head, min(len(self._head), limit // 2))
            surplus = self._head[kept:]
            del self._head[kept:]
            if self._cut:
                self._cut += len(surplus)
                self.dropped += len(surplus)
            else:
                self._tail = surplus + self._tail
        self._limit = limit
        self._shorten()

    async def read(self, descriptor: int) -> None:
        """Read a pipe until its other end is closed."""
        while True:
            await anyio.wait_readable(descriptor)
            data = os.read(descriptor, _PIECE)
            if not data:
                return
            self.add(data)

    def drain(self, descriptor: int) -> None:
        """Read what is in a pipe now, without waiting for more."""
        os.set_blocking(descriptor, False)
        for _ in range(_MAX_DRAINED):
            try:
                data = os.read(descriptor, _PIECE)
            except BlockingIOError:
                return
            if not data:
                return
            self.add(data)

    def _wake(self) -> None:
        if self._awaited:
            self._awaited.set()
            self._awaited = None

    def _over_the_cut(self) -> str:
        cut = self._cut
        self._head = self._tail
        self._cut = 0
        self._tail = bytearray()
        if not cut:
            return ""
        return f"{self._decoder.decode(b'', final=True)}\n[... {cut} bytes cut ...]\n"

    def _shorten(self) -> None:
        lost = 0
        if self._tail:
            lost = max(0, len(self._tail) - (self._limit - len(self._head)))
        if lost or self._cut:
            lost = _character_end(self._tail, lost)
            del self._tail[:lost]
            self._cut += lost
            self.dropped += lost


def share_room(limit: int, one: Output, other: Output) -> None:
    """Limit both streams together; a short one stays whole."""
    if one.size + other.size > limit:
        short, long = sorted((one, other), key=lambda output: output.size)
        short.narrow(limit // 2)
        long.narrow(limit - short.size)


class Input:
    """The writing end of a process's input; closing it is the end of the input."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor: int | None = descriptor
        # Otherwise, every write would also let other tasks run first.
        self._lock = anyio.Lock(fast_acquire=True)

    async def write(self, data: bytes, *, timeout: float | None = 5.0) -> None:
        """Write all of it; raise a ToolError with the number of unread bytes after the timeout."""
        left = memoryview(data)
        with anyio.move_on_after(timeout) as scope:
            async with self._lock:
                while left:
                    left = left[await self._write(left) :]
        if scope.cancelled_caught:
            raise ToolError(
                f"the process did not read {len(left)} of {len(data)} bytes of its input in time"
            )

    async def feed(self, data: bytes) -> None:
        """Write all of it and close; what the process does not read is dropped."""
        with suppress(ToolError):
            await self.write(data, timeout=None)
        self.close()

    def close(self) -> None:
        if self._descriptor is not None:
            descriptor = self._descriptor
            self._descriptor = None
            # A task that waits to write must not wait for a closed descriptor.
            anyio.notify_closing(descriptor)
            os.close(descriptor)

    async def _write(self, data: memoryview) -> int:
        if self._descriptor is None:
            raise ToolError("the input of the process is closed")
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:
            with_room = self._descriptor
        except BrokenPipeError:
            raise ToolError("the process no longer reads its input") from None
        try:
            await anyio.wait_writable(with_room)
        except anyio.ClosedResourceError:
            raise ToolError("the process has ended without reading all of its input") from None
        return 0


def locale_encoding() -> str:
    """Return the encoding of programs in this locale; UTF-8 for ASCII, as in Python."""
    try:
        found = codecs.lookup(locale.getencoding()).name
    except LookupError:
        return "utf-8"
    return "utf-8" if found == "ascii" else found


def _character_start(data: bytearray, place: int) -> int:
    """Return the place, or the beginning of the character around it."""
    # A character of UTF-8 has at most four bytes.
    for start in range(place, max(place - 4, -1), -1):
        if not _continues(data, start):
            return start
    return place


def _character_end(data: bytearray, place: int) -> int:
    """Return the place, or the end of the character around it."""
    for end in range(place, place + 4):
        if not _continues(data, end):
            return end
    return place


def _continues(data: bytearray, place: int) -> bool:
    return place < len(data) and data[place] & 0xC0 == 0x80
