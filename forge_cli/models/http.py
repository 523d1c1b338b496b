"""The HTTP client of all providers: httpx2 with time limits, events and uniform failures."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from codecs import BOM_UTF8
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import replace

from forge_cli import __version__
from forge_cli.core.bounds import CALL_LIMIT, wait_within
from forge_cli.core.errors import ModelError
from forge_cli.models.failures import Endpoint, ProviderFailure

# Slow to load, so it is imported with the first request: most commands ask no model.
if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT = 10.0
DRAIN_TIMEOUT = 0.2
"""Seconds for the rest of a complete answer; a new connection costs about as much."""
MAX_ERROR_BYTES = 64 * 1024
MAX_ANSWER_BYTES = 128 * 2**20
TOO_LONG = "an answer of more than {} bytes"
PROXIES = "proxy and certificate settings"
_LINE_END = re.compile(rb"\r\n|\n|\r")
T = TypeVar("T")


class RedirectRefused(Exception):
    """A redirect that is not followed; its text is the target."""


class Timeouts(Struct, frozen=True):
    """Seconds to connect, and seconds without anything new; a whole answer has no limit.

    A local server may read a long prompt for minutes before the first word.
    """

    connect: float = CONNECT_TIMEOUT
    read: float = 300
    first: float | None = None
    """Seconds until the first word, if that may take longer."""


class HttpAnswer:
    """The answer of a server: its status, its headers, and its body in pieces."""

    def __init__(self, response: httpx2.Response, patience: IdleTimeout) -> None:
        self.status_code = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self.patience = patience
        self._pieces = response.aiter_bytes()

    @property
    def media_type(self) -> str:
        return media_type(self.headers)

    async def read_piece(self) -> bytes:
        """Read the next piece, decompressed; empty at the end of the body."""
        return await self.patience.wait(anext(self._pieces, b""))

    async def read_beginning(self, limit: int = MAX_ERROR_BYTES) -> str:
        """Read the body up to a limit."""
        found = bytearray()
        while len(found) <= limit and (piece := await self.read_piece()):
            found += piece
        return found[:limit].decode("utf-8", "replace")

    async def drain(self) -> None:
        await drain(self._pieces)


@dataclass
class _Pool:
    """Clients of httpx2 for all models of an event loop; the last model closes them.

    Each request uses a client with one connection, because httpx2 checks all connections of a
    client for each request. With the hundred connections of a batch, that dominates everything.
    """

    trust_env: bool
    idle: list[httpx2.AsyncClient] = field(default_factory=list)
    users: int = 0

    @classmethod
    def join(cls, trust_env: bool) -> _Pool:
        pools = _pools.setdefault(asyncio.get_running_loop(), {})
        pool = pools.setdefault(trust_env, cls(trust_env))
        pool.users += 1
        return pool

    @contextmanager
    def client(self) -> Iterator[httpx2.AsyncClient]:
        client = self.idle.pop() if self.idle else _new_client(self.trust_env)
        try:
            yield client
        finally:
            self.idle.append(client)

    async def leave(self) -> None:
        self.users -= 1
        while not self.users and self.idle:
            await self.idle.pop().aclose()


_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[bool, _Pool]] = WeakKeyDictionary()
"""The pools by event loop, and by whether the environment's proxies are used."""


@dataclass(kw_only=True)
class HttpClient:
    """Requests to one server, over connections that all models of the event loop share."""

    url: str = field(repr=False)
    endpoint: Endpoint
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeouts: Timeouts = field(default_factory=Timeouts)
    trust_env: bool = False
    """True if the proxies in the environment are used."""
    _pool: _Pool | None = field(default=None, repr=False)

    @asynccontextmanager
    async def request(
        self, method: str, url: str | None = None, body: bytes = b""
    ) -> AsyncIterator[HttpAnswer]:
        """Send a request; its answer is read inside the ``async with``."""
        self._pool = self._pool or _Pool.join(self.trust_env)
        patience = IdleTimeout(self.timeouts.read, self.timeouts.first)
        try:
            with self._pool.client() as client:
                request = client.build_request(
                    method,
                    _parsed(url or self.url),
                    headers=self._headers,
                    content=body or None,
                    # ``patience`` limits everything after the connection.
                    timeout=(self.timeouts.connect, None, None, None),
                )
                async with aclosing(
                    await patience.wait(client.send(request, stream=True))
                ) as response:
                    yield HttpAnswer(response, patience)
        except Exception as error:
            first = None if patience.begun else self.timeouts.first
            failure = explain(
                error, self.endpoint, replace(self.timeouts, read=patience.limit, first=first)
            )
            if failure is None:
                raise
            raise failure from None

    @property
    def _headers(self) -> dict[str, str]:
        # Compression is not requested: gateways hold events back to compress them together.
        own = {
            "content-type": "application/json",
            "user-agent": f"forge/{__version__}",
            "accept-encoding": "identity",
        }
        return {**own, **self.headers}

    async def aclose(self) -> None:
        pool = self._pool
        self._pool = None
        if pool is not None:
            await wait_within(CALL_LIMIT, "closing its connections", pool.leave)


@lru_cache(maxsize=32)
def _parsed(url: str) -> httpx2.URL:
    """Parse an address, which takes as long as the rest of a request, once."""
    import httpx2

    return httpx2.URL(url)


def _new_client(trust_env: bool) -> httpx2.AsyncClient:
    import httpx2

    try:
        return httpx2.AsyncClient(
            verify=certificates(),
            trust_env=trust_env,
            timeout=None,
            # No cookies, because a client serves all models and servers.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            follow_redirects=True,
            event_hooks={"request": [keep_origin]},
        )
    except Exception as error:  # proxies and certificates are read from the environment here
        raise not_ready(error) from error


async def keep_origin(request: httpx2.Request) -> None:
    """Refuse a redirect to another origin, or one that drops the body of the request."""
    asked = request.method, request.url.scheme, request.url.host, request.url.port
    # httpx2 passes the extensions of a request on to the one that a redirect makes of it.
    if request.extensions.setdefault("asked", asked) != asked:
        raise RedirectRefused(str(request.url))


def explain(error: BaseException, endpoint: Endpoint, timeouts: Timeouts) -> ProviderFailure | None:
    """Return the failure for an error of httpx2 or of a request; None for a bug."""
    import httpx2

    match error:
        case httpx2.ConnectTimeout():
            return endpoint.connect_timeout(timeouts.connect)
        case httpx2.ConnectError() | httpx2.ProxyError() | httpx2.InvalidURL():
            return endpoint.connect_failed(error)
        case httpx2.TimeoutException() | TimeoutError():
            return endpoint.read_timeout(timeouts.read, again=timeouts.first is None)
        case RedirectRefused():
            return endpoint.redirected(str(error))
        case httpx2.TooManyRedirects() | httpx2.UnsupportedProtocol():
            return endpoint.redirected_astray(str(error))
        case httpx2.RemoteProtocolError() if "location header" in str(error):
            return endpoint.redirected_astray(str(error))
        case httpx2.HTTPError() | httpx2.StreamError():
            return endpoint.cut_off()
        case TooLong():
            return endpoint.garbage(str(error))
        case _:
            return None


def not_ready(error: Exception, settings: str = PROXIES) -> ModelError:
    """Return the error for an environment in which no client can be created."""
    return ModelError(
        f"cannot prepare a connection: {type(error).__name__}: {error}",
        hint=f"check the {settings} in the environment",
    )


@cache
def certificates() -> ssl.SSLContext:
    """Return the certificates of SSL_CERT_FILE or the system, which take long to read."""
    import httpx2

    return httpx2.create_ssl_context()


def media_type(headers: Mapping[str, str]) -> str:
    """Return the type in ``content-type`` without parameters, in lower case."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


class EventReader:
    """The server-sent events of an answer."""

    def __init__(self, response: HttpAnswer) -> None:
        self._response = response
        self._lines = SseReader()
        self._size = 0

    async def read(self) -> list[str]:
        """Return the next events that came together; empty at the end of the answer."""
        while piece := await self._response.read_piece():
            self._size += len(piece)
            if self._size > MAX_ANSWER_BYTES:
                raise TooLong(TOO_LONG.format(MAX_ANSWER_BYTES))
            if events := _with_data(self._lines.feed(piece)):
                return events
        return _with_data(self._lines.close())


def _with_data(events: list[str]) -> list[str]:
    return [event for event in events if event.strip() not in ("", "null")]


async def drain(pieces: AsyncIterator[object]) -> None:
    """Read the rest of a complete answer, so that its connection can serve the next request."""
    with suppress(Exception):  # the answer is complete: a failure now does not matter
        async with asyncio.timeout(DRAIN_TIMEOUT):
            async for _ in pieces:
                pass


class TooLong(ValueError):
    """Raised for an answer that does not end."""


class SseReader:
    """A parser of server-sent events; an event is the text of its data lines."""

    def __init__(self) -> None:
        self._rest = bytearray()
        """The line that has not ended."""
        self._data: list[str] = []
        self._after_cr = False

    def feed(self, piece: bytes) -> list[str]:
        """Return the events that these bytes complete."""
        if self._after_cr:  # a CR LF may be split between two pieces
            piece = piece.removeprefix(b"\n")
        self._after_cr = piece.endswith(b"\r")
        self._rest += piece
        lines = list[bytes]()
        events = list[str]()
        # Only the new bytes are searched, or a long line would be searched again with each piece.
        if _LINE_END.search(piece):
            *lines, rest = _LINE_END.split(bytes(self._rest))
            self._rest = bytearray(rest)
        for line in lines:
            if line := line.removeprefix(BOM_UTF8):
                self._take(line)
            else:
                events += self.close()
        return events

    def close(self) -> list[str]:
        """Return the event that only lacks its blank line; an incomplete line is dropped."""
        data = self._data
        self._data = []
        return ["\n".join(data)] if data else []

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
        elif name == b"error":  # llama.cpp has sent its errors in a field of their own
            self._data.append(f'{{"error":{value.removeprefix(b" ").decode("utf-8", "replace")}}}')


class IdleTimeout:
    """A time limit for something useful; the time that the caller takes between does not count."""

    def __init__(self, seconds: float, first: float | None = None) -> None:
        """Take another limit, ``first``, for the time before anything useful has come."""
        self.seconds = seconds
        self.limit = self.left = first or seconds
        self.begun = False

    def renew(self) -> None:
        """Start the time again, because something useful has come."""
        self.begun = True
        self.limit = self.seconds
        self.extend()

    def extend(self) -> None:
        """Start the time again, because the server reports progress."""
        self.left = self.limit

    async def wait(self, item: Awaitable[T]) -> T:
        """Return the awaited item, or raise TimeoutError if the time is over."""
        since = time.monotonic()
        async with asyncio.timeout(self.left):
            found = await item
        self.left -= time.monotonic() - since
        return found


async def until_silent(
    items: AsyncIterator[T], seconds: float, useful: Callable[[T], bool]
) -> AsyncGenerator[T]:
    """Yield the items of a stream; raise TimeoutError if no ``useful`` one comes in time."""
    patience = IdleTimeout(seconds)
    while True:
        try:
            item = await patience.wait(anext(items))
        except StopAsyncIteration:
            return
        if useful(item):
            patience.renew()
        yield item
