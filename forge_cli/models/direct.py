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
from forge_cli.models.connection import BrokenOff, HttpConnection, Silent
from forge_cli.models.http1 import AnswerHead, closes, encode_head

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
    def __init__(self, head: AnswerHead, patience: Patience, connection: HttpConnection, pool: _Pool | None) -> None:
        """``pool`` is where the connection may serve another request."""
        super().__init__(head.status, head.headers, patience)
        self._connection = connection
        self._pool = pool
        coding = self.headers.get("content-encoding", "identity").strip().lower()
        self._unpack = zlib.decompressobj(_GZIP_OR_DEFLATE).decompress if coding in _COMPRESSED else None

    async def read_piece(self) -> bytes:
        while piece := await self._connection.read_piece(self.patience):
            try:
                if data := self._unpack(piece) if self._unpack else piece:
                    return data
            except zlib.error as error:
                raise BrokenOff from error
        return b""

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
        self._headers = {**own, **headers}
        self._keeps_open = not closes(self._headers)
        self._heads: dict[str, bytes] = {}
        """Those of requests, by method, but for their end."""
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
        connection = await self._take(patience)
        try:
            connection.send(method, self._encode(method, body))
            head = await connection.read_head(patience)
        except BaseException:
            connection.close()
            raise
        return DirectAnswer(head, patience, connection, self._pool if self._keeps_open and head.keeps_open else None)

    def _encode(self, method: str, body: bytes) -> bytes:
        try:
            if (head := self._heads.get(method)) is None:
                head = self._heads[method] = encode_head(method, self._path, self._headers)
        except ValueError as error:
            raise BrokenOff from error
        return b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body) if body else head + b"\r\n"

    async def _take(self, patience: Patience) -> HttpConnection:
        if self._ahead is None and (connection := self._pool.take()):
            return connection
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
        if ahead is not None:
            ahead.cancel()
            await asyncio.wait({ahead})
            if not ahead.cancelled() and isinstance(opened := ahead.result(), HttpConnection):
                self._pool.put(opened)
        joined, self._joined = self._joined, None
        if joined is not None:
            await joined.leave()


def _first_cause(error: OSError) -> OSError:
    """Where several addresses were tried, the error at the first; asyncio has it in its text only."""
    found = re.search(r"\[Errno (\d+)\]", str(error)) if error.errno is None else None
    return OSError(int(found[1]), os.strerror(int(found[1]))) if found else error
