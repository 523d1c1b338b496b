"""HTTP/1.1 straight to one server: h11 over the streams of asyncio, for the requests that a model needs.

A client for everything takes half of the time of a turn, most of it for what no request to a model has: cookies,
redirects, authentication, pools. Where there is a proxy or an unusual address, that client is used all the same.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import time
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import h11

from forge_cli.core.values import dataclass

FRESH = 5.0
"""Seconds for which a connection that nobody uses counts as usable."""
_PLAIN_URL = re.compile(
    r"(https?)://([a-z0-9.-]+|\[[0-9a-f:.]+\])(?::(\d{1,5}))?(/[\w.~!$&'()*+,;=:@%/-]*)?", re.A | re.I
)
_PIECE = 64 * 1024
_LARGEST_HEAD = 100 * 1024
_LATER = 0.25
"""Seconds after which the next address of a server is tried beside the one before."""
_GZIP_OR_DEFLATE = 47
"""For zlib: either, whichever it is."""
_COMPRESSED = frozenset({"gzip", "deflate"})


class NoConnection(Exception):
    """None came about in time."""


class CannotConnect(Exception):
    """None can be opened; its cause says why."""


class Silent(Exception):
    """The server said nothing for too long."""


class BrokenOff(Exception):
    """The server, or the way there, ended before the answer did."""


class Times(NamedTuple):
    """Seconds to connect, and seconds without anything new."""

    connect: float
    read: float


class _Reader(asyncio.StreamReader):
    """One that knows whether there is more to read, be it the end."""

    heard = False

    def feed_data(self, data: Any) -> None:
        self.heard = True
        super().feed_data(data)

    def feed_eof(self) -> None:
        self.heard = True
        super().feed_eof()


@dataclass(eq=False)
class _Connection:
    reader: _Reader
    writer: asyncio.StreamWriter
    machine: h11.Connection
    since: float

    @property
    def is_fresh(self) -> bool:
        """Is it open still, and quiet? What a server says unasked is its farewell."""
        ended = self.reader.heard or self.writer.is_closing()
        return not ended and time.monotonic() - self.since < FRESH

    async def send(self, data: bytes, seconds: float) -> None:
        try:
            self.writer.write(data)
            async with asyncio.timeout(seconds):
                await self.writer.drain()
        except TimeoutError:
            raise Silent from None
        except OSError:  # it may have answered, and not wanted to hear all of the request
            pass

    async def next_event(self, seconds: float) -> Any:
        try:
            while (event := self.machine.next_event()) is h11.NEED_DATA:
                async with asyncio.timeout(seconds):
                    data = await self.reader.read(_PIECE)
                self.reader.heard = not 0 < len(data) < _PIECE
                self.machine.receive_data(data)
        except TimeoutError:
            raise Silent from None
        except (OSError, h11.RemoteProtocolError) as error:
            raise BrokenOff from error
        return event

    def close(self) -> None:
        self.writer.close()


class DirectAnswer:
    """What a server answers; the names are those of httpx2's answers."""

    def __init__(self, connection: _Connection, head: h11.Response, seconds: float) -> None:
        self.status_code = head.status_code
        self.headers: dict[str, str] = {}
        for name, value in head.headers:
            key, text = name.decode("latin-1"), value.decode("latin-1")
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text
        self._connection = connection
        self._seconds = seconds

    @property
    def is_success(self) -> bool:
        return 200 <= self.status_code < 300

    @property
    def is_redirect(self) -> bool:
        return 300 <= self.status_code < 400 and "location" in self.headers

    async def aiter_bytes(self) -> AsyncGenerator[bytes]:
        """The body in pieces as they come, without its compression."""
        coding = self.headers.get("content-encoding", "identity").strip().lower()
        unpack = zlib.decompressobj(_GZIP_OR_DEFLATE) if coding in _COMPRESSED else None
        while type(event := await self._connection.next_event(self._seconds)) is h11.Data:
            piece = bytes(event.data)
            try:
                if data := piece if unpack is None else unpack.decompress(piece):
                    yield data
            except zlib.error as error:
                raise BrokenOff from error
        if not isinstance(event, h11.EndOfMessage):
            raise BrokenOff

    async def aread(self) -> bytes:
        return b"".join([piece async for piece in self.aiter_bytes()])


class _Pool:
    """The connections to one server that nobody uses, for all clients that ask it; closed with the last of them."""

    def __init__(self) -> None:
        self._idle: list[_Connection] = []
        self._clients = 0

    @classmethod
    def join(cls, server: tuple[object, ...]) -> _Pool:
        """Those of the event loop that runs."""
        pool = _pools.setdefault(asyncio.get_running_loop(), {}).setdefault(server, cls())
        pool._clients += 1
        return pool

    async def leave(self) -> None:
        self._clients -= 1
        if not self._clients:
            idle, self._idle = self._idle, []
            await _close_all(idle)

    @property
    def is_empty(self) -> bool:
        return not self._idle

    def take(self) -> _Connection | None:
        """The one that was used last."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_fresh:
                return connection
            connection.close()
        return None

    def put(self, connection: _Connection) -> None:
        while self._idle and not self._idle[0].is_fresh:
            self._idle.pop(0).close()
        self._idle.append(connection)


_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[object, ...], _Pool]] = WeakKeyDictionary()


class DirectClient:
    """Requests to one server: each takes a connection that nobody uses, or opens another."""

    def __init__(self, url: str, headers: Mapping[str, str], times: Times, trust: ssl.SSLContext | None) -> None:
        """``trust`` is needed for an address that begins with https."""
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port
        self._path = parts.path or "/"
        self._trust = trust if parts.scheme == "https" else None
        own = {"host": parts.netloc, "accept": "*/*", "accept-encoding": "gzip, deflate", "connection": "keep-alive"}
        self._headers = tuple({**own, **headers}.items())
        self._times = times
        self._joined: _Pool | None = None
        self._ahead: asyncio.Task[_Connection | Exception] | None = None

    @staticmethod
    def takes(url: str) -> bool:
        """Is there nothing in an address that would have to be encoded or understood first?"""
        return _PLAIN_URL.fullmatch(url) is not None

    def connect_ahead(self) -> None:
        """Begin to open a connection for the first request; nothing is sent, and a failure is silent."""
        if self._ahead is None and self._pool.is_empty:
            self._ahead = asyncio.create_task(self._try_to_open())

    @property
    def _pool(self) -> _Pool:
        if self._joined is None:
            self._joined = _Pool.join((self._host, self._port, self._trust))
        return self._joined

    @asynccontextmanager
    async def request(self, method: str, body: bytes) -> AsyncIterator[DirectAnswer]:
        connection = await self._take()
        try:
            await connection.send(self._encode(connection.machine, method, body), self._times.read)
            while isinstance(event := await connection.next_event(self._times.read), h11.InformationalResponse):
                pass
            if not isinstance(event, h11.Response):
                raise BrokenOff
            yield DirectAnswer(connection, event, self._times.read)
        finally:
            self._put_back(connection)

    def _encode(self, machine: h11.Connection, method: str, body: bytes) -> bytes:
        length = [("content-length", str(len(body)))] if body else []
        try:
            head = h11.Request(method=method, target=self._path, headers=[*self._headers, *length])
        except (h11.LocalProtocolError, UnicodeError) as error:
            raise BrokenOff from error
        events = [head, h11.Data(data=body), h11.EndOfMessage()]
        return b"".join([machine.send(event) or b"" for event in events])

    async def _take(self) -> _Connection:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            waited = not ahead.done()
            opened = await ahead
            if isinstance(opened, _Connection):
                self._pool.put(opened)
            elif waited:
                raise opened
        return self._pool.take() or await self._open()

    def _put_back(self, connection: _Connection) -> None:
        machine = connection.machine
        is_done = machine.our_state is h11.DONE and machine.their_state is h11.DONE
        if is_done and not connection.reader.heard and not machine.trailing_data[0]:
            machine.start_next_cycle()
            connection.since = time.monotonic()
            self._pool.put(connection)
        else:
            connection.close()

    async def _open(self) -> _Connection:
        try:
            if self._trust:
                self._trust.set_alpn_protocols(["http/1.1"])
            loop, reader = asyncio.get_running_loop(), _Reader(_PIECE)
            async with asyncio.timeout(self._times.connect):
                transport, protocol = await loop.create_connection(
                    lambda: asyncio.StreamReaderProtocol(reader),
                    self._host,
                    self._port or (443 if self._trust else 80),
                    ssl=self._trust,
                    happy_eyeballs_delay=_LATER,
                )
        except TimeoutError:
            raise NoConnection from None
        except OSError as error:
            raise CannotConnect from _first_cause(error)
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        machine = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LARGEST_HEAD)
        return _Connection(reader, writer, machine, time.monotonic())

    async def _try_to_open(self) -> _Connection | Exception:
        try:
            return await self._open()
        except Exception as error:  # told by the request that wants the connection, if one waits for it
            return error

    async def aclose(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.cancel()
            await asyncio.wait({ahead})
            if not ahead.cancelled() and isinstance(opened := ahead.result(), _Connection):
                self._pool.put(opened)
        joined, self._joined = self._joined, None
        if joined is not None:
            await joined.leave()


async def _close_all(connections: Sequence[_Connection]) -> None:
    for connection in connections:
        connection.close()
    for connection in connections:
        try:
            async with asyncio.timeout(1):
                await connection.writer.wait_closed()
        except (OSError, TimeoutError):  # it is gone, one way or the other
            pass


def _first_cause(error: OSError) -> OSError:
    """Where several addresses were tried, the error at the first; asyncio has it in its text only."""
    found = re.search(r"\[Errno (\d+)\]", str(error)) if error.errno is None else None
    return OSError(int(found[1]), os.strerror(int(found[1]))) if found else error
