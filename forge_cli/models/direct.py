"""HTTP/1.1 straight to one server, over the transports of asyncio, for the requests that a model needs.

A client for everything takes half of the time of a turn, most of it for what no request to a model has: cookies,
redirects, authentication, pools. Where there is a proxy or an unusual address, that client is used all the same.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from forge_cli.core.silence import Patience
from forge_cli.models.connection import HttpConnection, Silent
from forge_cli.models.http1 import AnswerHead, AnswerReader, NotHttp, closes, encode_head

_PLAIN_URL = re.compile(
    r"(https?)://([a-z0-9.-]+|\[[0-9a-f:.]+\])(?::(\d{1,5}))?(/[\w.~!$&'()*+,;=:@%/-]*)?", re.A | re.I
)
_LATER = 0.25
"""Seconds after which the next address of a server is tried beside the one before."""
_GZIP_OR_DEFLATE = 47
"""For zlib: either, whichever it is."""
_COMPRESSED = frozenset({"gzip", "deflate"})


class NoConnection(Exception):
    """None came about in time."""


class CannotConnect(Exception):
    """None can be opened; its cause says why."""


class Times(NamedTuple):
    """Seconds to connect, and seconds without anything new."""

    connect: float
    read: float


class HttpAnswer(ABC):
    """What a server answers: status and headers, and the body piece by piece."""

    def __init__(self, status: int, headers: Mapping[str, str], patience: Patience) -> None:
        self.status_code = status
        self.headers = headers
        self.patience = patience

    @property
    def is_success(self) -> bool:
        return 200 <= self.status_code < 300

    @property
    def is_redirect(self) -> bool:
        return 300 <= self.status_code < 400 and "location" in self.headers

    @property
    def is_read(self) -> bool:
        """Has all of the body been read, as far as that is known without waiting?"""
        return False

    @abstractmethod
    async def read_piece(self) -> bytes:
        """The next piece as it comes, without its compression; nothing at the end of the body."""

    async def read(self) -> bytes:
        pieces = []
        while piece := await self.read_piece():
            pieces.append(piece)
        return b"".join(pieces)


class _Pool:
    """The connections to one server that nobody uses, for all clients that ask it; closed with the last of them."""

    def __init__(self) -> None:
        self._idle: list[HttpConnection] = []
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
            for connection in idle:
                connection.close()
            if idle:
                await asyncio.wait([connection.closed for connection in idle], timeout=1)

    @property
    def is_empty(self) -> bool:
        return not self._idle

    def take(self) -> HttpConnection | None:
        """The one that was used last."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_fresh:
                return connection
            connection.close()
        return None

    def put(self, connection: HttpConnection) -> None:
        while self._idle and not self._idle[0].is_fresh:
            self._idle.pop(0).close()
        connection.rest()
        self._idle.append(connection)


_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[object, ...], _Pool]] = WeakKeyDictionary()


class DirectAnswer(HttpAnswer):
    def __init__(
        self,
        head: AnswerHead,
        patience: Patience,
        connection: HttpConnection,
        reader: AnswerReader,
        pool: _Pool | None,
    ) -> None:
        """``pool`` is where the connection may serve another request."""
        super().__init__(head.status, head.headers, patience)
        self._connection = connection
        self._reader = reader
        self._pool = pool
        coding = self.headers.get("content-encoding", "identity").strip().lower()
        self._unpack = zlib.decompressobj(_GZIP_OR_DEFLATE).decompress if coding in _COMPRESSED else None

    @property
    def is_read(self) -> bool:
        return self._reader.is_done

    async def read_piece(self) -> bytes:
        while True:
            piece = self._reader.read_piece()
            if piece is None:
                await self._connection.arrival(self.patience)
            elif data := self._unpacked(piece):
                return data
            elif not piece:
                return b""

    def _unpacked(self, piece: bytes) -> bytes:
        try:
            return self._unpack(piece) if self._unpack else piece
        except zlib.error as error:
            raise NotHttp("a body that is not compressed as it says") from error

    def close(self) -> None:
        """Leave the connection to others, if it can serve them."""
        if self._pool is not None and self._connection.is_reusable:
            self._pool.put(self._connection)
        else:
            self._connection.close()


class DirectClient:
    """Requests to one server: each takes a connection that nobody uses, or opens another."""

    def __init__(self, url: str, headers: Mapping[str, str], times: Times, trust: ssl.SSLContext | None) -> None:
        """``trust`` is needed for an address that begins with https."""
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port
        self._path = parts.path or "/"
        self._trust = trust if parts.scheme == "https" else None
        own = {"host": parts.netloc, "accept": "*/*", "accept-encoding": "gzip, deflate", "connection": "keep-alive"}
        all_headers = {**own, **headers}
        self._headers = tuple(all_headers.items())
        self._keeps_open = not closes(all_headers)
        self._times = times
        self._joined: _Pool | None = None
        self._ahead: asyncio.Task[HttpConnection | Exception] | None = None

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

    async def send(self, method: str, body: bytes) -> DirectAnswer:
        """Whoever gets the answer closes it."""
        patience = Patience(self._times.read)
        data = self._encode(method, body)
        connection = self._pool.take() if self._ahead is None else None
        if connection is None:
            connection = await self._wait_for_one(patience)
        try:
            reader = connection.send(method, data)
            while (head := reader.read_head()) is None:
                await connection.arrival(patience)
        except BaseException:
            connection.close()
            raise
        pool = self._pool if self._keeps_open and head.keeps_open else None
        return DirectAnswer(head, patience, connection, reader, pool)

    def _encode(self, method: str, body: bytes) -> bytes:
        head = encode_head(method, self._path, self._headers)
        return b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body) if body else head + b"\r\n"

    async def _wait_for_one(self, patience: Patience) -> HttpConnection:
        try:
            return await patience.wait(self._find_or_open())
        except TimeoutError:
            raise Silent from None

    async def _find_or_open(self) -> HttpConnection:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            waited = not ahead.done()
            opened = await ahead
            if isinstance(opened, HttpConnection):
                self._pool.put(opened)
            elif waited:
                raise opened
        return self._pool.take() or await self._open()

    async def _open(self) -> HttpConnection:
        try:
            if self._trust:
                self._trust.set_alpn_protocols(["http/1.1"])
            async with asyncio.timeout(self._times.connect):
                _, connection = await asyncio.get_running_loop().create_connection(
                    HttpConnection,
                    self._host,
                    self._port or (443 if self._trust else 80),
                    ssl=self._trust,
                    happy_eyeballs_delay=_LATER,
                )
        except TimeoutError:
            raise NoConnection from None
        except OSError as error:
            raise CannotConnect from _first_cause(error)
        return connection

    async def _try_to_open(self) -> HttpConnection | Exception:
        try:
            return await self._open()
        except Exception as error:  # told by the request that wants the connection, if one waits for it
            return error

    async def aclose(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:  # asyncio loses a connection that comes as it is cancelled, and leaves it open
            ahead.add_done_callback(_close_unused)
        joined, self._joined = self._joined, None
        if joined is not None:
            await joined.leave()


def _close_unused(ahead: asyncio.Task[HttpConnection | Exception]) -> None:
    if not ahead.cancelled() and isinstance(opened := ahead.result(), HttpConnection):
        opened.close()


def _first_cause(error: OSError) -> OSError:
    """Where several addresses were tried, the error at the first; asyncio has it in its text only."""
    found = re.search(r"\[Errno (\d+)\]", str(error)) if error.errno is None else None
    return OSError(int(found[1]), os.strerror(int(found[1]))) if found else error
