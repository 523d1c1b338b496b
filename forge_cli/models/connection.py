"""One connection to a server: a request out, its answer back, and a limit for whoever waits."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from forge_cli.core.silence import Patience
from forge_cli.models.http1 import AnswerReader

FRESH = 5.0
"""Seconds for which a connection that nobody uses counts as usable."""
_MOST_UNREAD = 128 * 1024


class Silent(Exception):
    """The server said nothing for too long."""


class HttpConnection(asyncio.Protocol):
    """A connection to a server: what arrives goes to the reader of its answer, and wakes whoever waits for it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = AnswerReader()
        self._waiter: asyncio.Future[None] | None = None
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        """One for all waits: it looks at the deadline when it fires."""
        self._is_full = False
        """Has reading been stopped, because nobody takes what has arrived?"""
        self._since = time.monotonic()
        self.closed: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport: asyncio.Transport = transport

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        if self._reader.size > _MOST_UNREAD and not self._is_full:
            self._is_full = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        self._reader.feed_end()
        self._wake()
        return self._transport.get_extra_info("sslcontext") is None  # True: our side stays open

    def connection_lost(self, error: Exception | None) -> None:
        self._reader.feed_end()
        self._wake()
        self.closed.set_result(None)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    @property
    def is_fresh(self) -> bool:
        """Is it open still, and quiet? What a server says unasked is its farewell."""
        ended = self._reader.has_more or self._transport.is_closing()
        return not ended and time.monotonic() - self._since < FRESH

    @property
    def is_reusable(self) -> bool:
        """Has the answer come to its end, with nothing after it, and is all of the request gone?"""
        return self._reader.is_done and not self._reader.has_more and not self._transport.get_write_buffer_size()

    def send(self, method: str, data: bytes) -> AnswerReader:
        """The reader of its answer is returned, which knows no more than has arrived.

        What does not go out at once does while the answer is awaited: a server may not want to hear all of it.
        """
        self._reader = AnswerReader(method)
        self._transport.write(data)
        return self._reader

    async def arrival(self, patience: Patience) -> None:
        """Wait for more, or for the end."""
        self._deadline = deadline = self._loop.time() + patience.left
        if self._timer is None or self._timer.when() > self._deadline:
            self._set_timer()
        self._resume_reading()
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        patience.left = deadline - self._loop.time()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._deadline, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer = None
        if self._waiter is None or self._waiter.done():
            return
        if self._loop.time() < self._deadline:
            self._set_timer()
        else:
            self._waiter.set_exception(Silent())

    def _resume_reading(self) -> None:
        if self._is_full:
            self._is_full = False
            self._transport.resume_reading()

    def rest(self) -> None:
        """Nobody uses it for now."""
        self._since = time.monotonic()
        self._resume_reading()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._transport.get_write_buffer_size():
            self._transport.abort()
        else:
            self._transport.close()
