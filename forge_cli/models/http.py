"""The HTTP client of all providers: httpx2, with our time limits, server-sent events, and failures of one kind."""

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

if TYPE_CHECKING:
    import httpx2

CONNECT = 10.0
DRAIN_SECONDS = 0.2
LONGEST_ERROR = 64 * 1024
LONGEST_ANSWER = 128 * 2**20
TOO_LONG = "an answer of more than {} bytes"
PROXIES = "proxy and certificate settings"
_LINE_END = re.compile(rb"\r\n|\n|\r")
T = TypeVar("T")


class RedirectRefused(Exception):
    """A redirect that is not followed; its text is the target."""


class Timeouts(Struct, frozen=True):
    """Seconds to connect, and seconds without anything new; an answer as a whole may take as long as it likes.

    A local server may read a long prompt for minutes before it says the first word.
    """

    connect: float = CONNECT
    read: float = 300
    first: float | None = None
    """Until the first word, where that may take longer."""


class HttpAnswer:
    """The answer of a server: status and headers, and the body piece by piece."""

    def __init__(self, response: httpx2.Response, patience: IdleTimeout) -> None:
        self.status_code = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self.patience = patience
        self._pieces = response.aiter_bytes()

    @property
    def media_type(self) -> str:
        return media_type(self.headers)

    async def read_piece(self) -> bytes:
        """Read the next piece as it comes, without its compression; nothing at the end of the body."""
        return await self.patience.wait(anext(self._pieces, b""))

    async def read_beginning(self, limit: int = LONGEST_ERROR) -> str:
        """Read as much of the body as is worth reading."""
        found = bytearray()
        while len(found) <= limit and (piece := await self.read_piece()):
            found += piece
        return found[:limit].decode("utf-8", "replace")

    async def drain(self) -> None:
        await drain(self._pieces)


@dataclass
class _Pool:
    """Clients of httpx2 for all models of an event loop, whose requests share connections; the last model closes them.

    Each request has a client to itself, with one connection: httpx2 looks at all connections of a client for each
    request, which takes longer than all else where a batch has a hundred of them.
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
"""By event loop, and by whether the proxies of the environment are used."""


@dataclass(kw_only=True)
class HttpClient:
    """Requests to one server, over connections that all models of the event loop share."""

    url: str = field(repr=False)
    endpoint: Endpoint
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeouts: Timeouts = field(default_factory=Timeouts)
    trust_env: bool = False
    """True if the proxies that the environment names are used."""
    _pool: _Pool | None = field(default=None, repr=False)

    @asynccontextmanager
    async def request(
        self, method: str, url: str | None = None, body: bytes = b""
    ) -> AsyncIterator[HttpAnswer]:
        """Send one request, within whose ``async with`` its answer is read."""
        self._pool = self._pool or _Pool.join(self.trust_env)
        patience = IdleTimeout(self.timeouts.read, self.timeouts.first)
        try:
            with self._pool.client() as client:
                request = client.build_request(
                    method,
                    _parsed(url or self.url),
                    headers=self._headers,
                    content=body or None,
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
        """Compression is not asked for: gateways hold back events to compress them together."""
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
    """An address, which takes as long to read as the rest of a request, and is the same in every turn."""
    import httpx2

    return httpx2.URL(url)


def _new_client(trust_env: bool) -> httpx2.AsyncClient:
    import httpx2

    try:
        return httpx2.AsyncClient(
            verify=certificates(),
            trust_env=trust_env,
            timeout=None,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            follow_redirects=True,
            event_hooks={"request": [keep_origin]},
        )
    except Exception as error:  # proxies and certificates are read from the environment here
        raise not_ready(error) from error


async def keep_origin(request: httpx2.Request) -> None:
    """Refuse a redirect that leads to another origin, or on which the request would lose its body."""
    asked = request.method, request.url.scheme, request.url.host, request.url.port
    if request.extensions.setdefault("asked", asked) != asked:
        raise RedirectRefused(str(request.url))


def explain(error: BaseException, endpoint: Endpoint, timeouts: Timeouts) -> ProviderFailure | None:
    """The failure behind an error of httpx2 or of a request; None for a bug."""
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
    """The sentence for settings in the environment that no client can be made with."""
    hint = f"look at the {settings} in the environment"
    return ModelError(
        f"no connection can be made ready: {type(error).__name__}: {error}", hint=hint
    )


@cache
def certificates() -> ssl.SSLContext:
    """Those of SSL_CERT_FILE or the system; each proxy would read them again."""
    import httpx2

    return httpx2.create_ssl_context()


def media_type(headers: Mapping[str, str]) -> str:
    """The type in ``content-type`` without its parameters, in lower case."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


class EventReader:
    """The server-sent events of an answer."""

    def __init__(self, response: HttpAnswer) -> None:
        self._response = response
        self._lines = SseReader()
        self._size = 0

    async def read(self) -> list[str]:
        """The data of those that came together, without empty ones and null; none once the answer has ended."""
        while piece := await self._response.read_piece():
            self._size += len(piece)
            if self._size > LONGEST_ANSWER:
                raise TooLong(TOO_LONG.format(LONGEST_ANSWER))
            if events := _with_data(self._lines.feed(piece)):
                return events
        return _with_data(self._lines.close())


def _with_data(events: list[str]) -> list[str]:
    return [event for event in events if event.strip() not in ("", "null")]


async def drain(pieces: AsyncIterator[object]) -> None:
    """Read on behind a complete answer, whose end mostly has arrived: its connection serves the next request then."""
    with suppress(Exception):  # the answer is complete: a failure now does not matter
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in pieces:
                pass


class TooLong(ValueError):
    """An answer does not end."""


class SseReader:
    """Collects lines into events; an event is the text of its data lines."""

    def __init__(self) -> None:
        self._rest = bytearray()
        """The line that has not ended."""
        self._data: list[str] = []
        self._after_cr = False

    def feed(self, piece: bytes) -> list[str]:
        """The events that these bytes complete."""
        if self._after_cr:
            piece = piece.removeprefix(b"\n")
        self._after_cr = piece.endswith(b"\r")
        self._rest += piece
        lines = list[bytes]()
        events = list[str]()
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
        """The event that only misses its blank line; a line that is not complete does not count."""
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
    """The seconds in which something useful must come; what the listener takes its time for does not count."""

    def __init__(self, seconds: float, first: float | None = None) -> None:
        """``first`` is for what comes before anything useful has."""
        self.seconds = seconds
        self.limit = self.left = first or seconds
        self.begun = False

    def renew(self) -> None:
        """Something useful has come."""
        self.begun = True
        self.limit = self.seconds
        self.extend()

    def extend(self) -> None:
        """The expected thing is on its way."""
        self.left = self.limit

    async def wait(self, item: Awaitable[T]) -> T:
        """A TimeoutError where it does not come in time."""
        since = time.monotonic()
        async with asyncio.timeout(self.left):
            found = await item
        self.left -= time.monotonic() - since
        return found


async def until_silent(
    items: AsyncIterator[T], seconds: float, useful: Callable[[T], bool]
) -> AsyncGenerator[T]:
    """The items of a stream; a TimeoutError once none that is ``useful`` has come for so many seconds."""
    patience = IdleTimeout(seconds)
    while True:
        try:
            item = await patience.wait(anext(items))
        except StopAsyncIteration:
            return
        if useful(item):
            patience.renew()
        yield item
