"""Open tabs of a session, each with a bounded queue, so that a slow one does not delay others."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence

import anyio

from forge_cli.core.wire import JsonObject

MAX_QUEUED = 4 * 1024 * 1024
"""Maximum bytes that wait for a tab; a slower tab is closed, and reconnects for the rest."""
PING_INTERVAL = 15.0
"""Seconds without data after which a comment keeps the connection open."""
PING = b":\n\n"


class Tab:
    """One open stream of events."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._news = anyio.Event()
        self.closed = False
        self.scope = anyio.CancelScope()
        """The scope of everything that serves this tab."""

    def put(self, message: bytes) -> None:
        """Queue a message, or close a tab that is too far behind."""
        if self.closed:
            return
        behind = bool(self._waiting)
        self._waiting.append(message)
        self._size += len(message)
        if behind and self._size > MAX_QUEUED:  # a single message may be larger
            self._waiting.clear()
            self.closed = True
            self.scope.cancel()
        self._news.set()

    def close(self) -> None:
        """End the stream after the queued messages."""
        self.closed = True
        self._news.set()

    async def next(self) -> bytes | None:
        """Wait for queued messages and return them together; None at the end of the stream."""
        while not self._waiting:
            if self.closed:
                return None
            self._news = anyio.Event()  # an anyio.Event cannot be cleared
            with anyio.move_on_after(PING_INTERVAL) as quiet:
                await self._news.wait()
            if quiet.cancelled_caught:
                return PING
        message = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        return message


def encode_message(objects: Sequence[JsonObject], seq: int | None = None) -> bytes:
    """Return objects as one message of a stream; a reconnect continues after ``seq``."""
    data = json.dumps(objects, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    number = b"" if seq is None else f"id: {seq}\n".encode()
    return b"%bdata: %b\n\n" % (number, data)
