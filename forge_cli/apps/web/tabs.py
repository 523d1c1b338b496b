"""Tabs that are open on a session: each has a bounded queue of its own, so that a slow one does not delay others."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence

import anyio

from forge_cli.core.wire import JsonObject

QUEUED = 4 * 1024 * 1024
"""Bytes that wait for a tab; one that is further behind is closed, and comes back for what it has missed."""
PING = 15.0
"""Seconds after which a quiet stream says that it is still there."""
ALIVE = b":\n\n"


class Tab:
    """One open stream of events."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._news = anyio.Event()
        self.closed = False
        self.scope = anyio.CancelScope()
        """Around all that serves this tab."""

    def put(self, message: bytes) -> None:
        if self.closed:
            return
        behind = bool(self._waiting)
        self._waiting.append(message)
        self._size += len(message)
        if behind and self._size > QUEUED:
            self._waiting.clear()
            self.closed = True
            self.scope.cancel()
        self._news.set()

    def close(self) -> None:
        """End the stream once everything was sent."""
        self.closed = True
        self._news.set()

    async def next(self) -> bytes | None:
        """All that is to be sent now; None at the end of the stream."""
        while not self._waiting:
            if self.closed:
                return None
            self._news = anyio.Event()
            with anyio.move_on_after(PING) as quiet:
                await self._news.wait()
            if quiet.cancelled_caught:
                return ALIVE
        message = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        return message


def encode_message(objects: Sequence[JsonObject], seq: int | None = None) -> bytes:
    """Objects as one message of a stream; ``seq`` is where to start from after a break."""
    data = json.dumps(objects, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    number = b"" if seq is None else f"id: {seq}\n".encode()
    return b"%bdata: %b\n\n" % (number, data)
