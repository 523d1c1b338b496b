"""One server over HTTP: its connections, time limits and certificates, and what goes wrong as a ProviderFailure."""

from __future__ import annotations

import os
import ssl
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import field, replace
from functools import cache, cached_property
from types import TracebackType
from typing import TYPE_CHECKING

from forge_cli import __version__
from forge_cli.core.bounds import LATER, wait_within
from forge_cli.core.errors import ModelError
from forge_cli.core.silence import Patience
from forge_cli.core.values import dataclass
from forge_cli.models.connection import Silent
from forge_cli.models.direct import CannotConnect, DirectAnswer, DirectClient, HttpAnswer, NoConnection, Times
from forge_cli.models.failures import Endpoint, ProviderFailure
from forge_cli.models.http1 import NotHttp
from forge_cli.models.sse import SseReader, TooLong

if TYPE_CHECKING:
    import httpx2

CONNECT = 10.0
LONGEST_ERROR = 64 * 1024
LONGEST_ANSWER = 128 * 2**20
TOO_LONG = "an answer of more than {} bytes"
PROXIES = "proxy and certificate settings"
_FAILURES = (NoConnection, CannotConnect, Silent, NotHttp, TooLong)
"""What goes wrong on the way without a client for everything."""


@dataclass(frozen=True)
class Timeouts:
    """Seconds to connect, and seconds without anything new; an answer as a whole may take as long as it likes.

    A server of one's own may read a long prompt for minutes before it says the first word.
    """

    connect: float = CONNECT
    read: float = 300


class ClientAnswer(HttpAnswer):
    """One that the client for everything has got."""

    def __init__(self, response: httpx2.Response, patience: Patience) -> None:
        super().__init__(response.status_code, response.headers, patience)
        self._pieces = response.aiter_bytes()

    async def read_piece(self) -> bytes:
        return await self.patience.wait(anext(self._pieces, b""))


class HttpRequest:
    """One request: its answer, and what goes wrong until that is read to the end as a ProviderFailure."""

    def __init__(self, line: HttpLine, method: str, url: str | None, body: bytes) -> None:
        self._line = line
        self._method, self._url, self._body = method, url, body
        self._answer: DirectAnswer | None = None
        self._through_client: AbstractAsyncContextManager[HttpAnswer] | None = None

    async def __aenter__(self) -> HttpAnswer:
        if self._url is None and (direct := self._line.open_direct()):
            try:
                answer = await direct.send(self._method, self._body)
            except _FAILURES as error:
                raise self._line.explain(error) from None
            if not (answer.is_redirect and self._line.uses_proxies):
                self._answer = answer
                return answer
            answer.close()
        self._through_client = self._line.ask_client(self._method, self._url, self._body)
        return await self._through_client.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if self._through_client:
            return await self._through_client.__aexit__(kind, error, trace)
        if self._answer:
            self._answer.close()
        if isinstance(error, _FAILURES):
            raise self._line.explain(error) from None
        return None


@dataclass(kw_only=True)
class HttpLine:
    """The connections to one server, opened with the first request."""

    url: str = field(repr=False)
    endpoint: Endpoint
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeouts: Timeouts = Timeouts()
    uses_proxies: bool = False
    """Are the proxies of the environment used, and redirects followed? Else nothing goes anywhere but to the server."""
    _client: httpx2.AsyncClient | None = field(default=None, repr=False)
    _direct: DirectClient | None = field(default=None, repr=False)

    def request(self, method: str, url: str | None = None, body: bytes = b"") -> HttpRequest:
        """Send one request, within whose ``async with`` its answer is read."""
        return HttpRequest(self, method, url, body)

    @asynccontextmanager
    async def ask_client(self, method: str, url: str | None, body: bytes) -> AsyncIterator[HttpAnswer]:
        """The same through the client for everything."""
        with self._translated_client():
            client, patience = self._open_client(), Patience(self.timeouts.read)
            request = client.build_request(method, url or self.url, content=body or None)
            async with aclosing(await patience.wait(client.send(request, stream=True))) as response:
                yield ClientAnswer(response, patience)

    def explain(self, error: Exception) -> ProviderFailure:
        """What has gone wrong without that client."""
        match error:
            case NoConnection():
                return self.endpoint.no_connection(self.timeouts.connect)
            case CannotConnect():
                return self.endpoint.unreachable(error)
            case Silent():
                return self.endpoint.silent(self.timeouts.read)
            case TooLong():
                return self.endpoint.garbage(str(error))
            case _:
                return self.endpoint.cut_off()

    @contextmanager
    def _translated_client(self) -> Iterator[None]:
        import httpx2

        try:
            yield
        except httpx2.ConnectTimeout:
            raise self.endpoint.no_connection(self.timeouts.connect) from None
        except (httpx2.ConnectError, httpx2.InvalidURL) as error:
            raise asked(error, self.endpoint, httpx2.URL(self.url)).unreachable(error) from None
        except (httpx2.TimeoutException, TimeoutError):
            raise self.endpoint.silent(self.timeouts.read) from None
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise broken(error, self.endpoint) from None
        except TooLong as error:
            raise self.endpoint.garbage(str(error)) from None

    def open(self) -> None:
        """Import and read what requests need."""
        if self.open_direct() is None:
            self._open_client()

    def open_direct(self) -> DirectClient | None:
        """The way without a client for everything; None where the address or a proxy needs one."""
        if self._direct is None and not self._has_proxies and DirectClient.takes(self.url):
            try:
                times = Times(self.timeouts.connect, self.timeouts.read)
                self._direct = DirectClient(self.url, self._all_headers, times, self._trust)
            except Exception as error:  # certificates are read here, as the environment names them
                raise not_ready(error) from error
        return self._direct

    @property
    def _all_headers(self) -> dict[str, str]:
        return {"content-type": "application/json", "user-agent": f"forge/{__version__}", **self.headers}

    def _open_client(self) -> httpx2.AsyncClient:
        import httpx2

        if self._client is None:
            timeout = httpx2.Timeout(self.timeouts.read, connect=self.timeouts.connect)
            trust = self._trust or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            try:
                self._client = httpx2.AsyncClient(
                    headers=self._all_headers,
                    timeout=timeout,
                    transport=None if self._has_proxies else httpx2.AsyncHTTPTransport(verify=trust),
                    verify=trust,
                    trust_env=self.uses_proxies,
                    follow_redirects=self.uses_proxies,
                )
            except Exception as error:  # proxies and certificates are read from the environment here
                raise not_ready(error) from error
        return self._client

    def connect_ahead(self) -> None:
        """Begin to open a connection beside other work, for the first request; a proxy is left alone until then."""
        with suppress(ModelError):  # told by the first request
            if direct := self.open_direct():
                direct.connect_ahead()

    @cached_property
    def _has_proxies(self) -> bool:
        return self.uses_proxies and _has_proxies()

    @cached_property
    def _trust(self) -> ssl.SSLContext | None:
        """Whom to trust; where nothing is encrypted, reading the certificates would be the slowest part of a start."""
        return certificates() if self.url.startswith("https:") or self._has_proxies else None

    async def aclose(self) -> None:
        if self._direct is not None:
            await self._direct.aclose()
            self._direct = None
        if self._client is not None:
            await wait_within(LATER, "closing its connections", self._client.aclose)
            self._client = None


def _has_proxies() -> bool:
    """Whether the environment names one, or the settings of a system that has such: what reads those loads slowly."""
    names = {name.lower() for name in os.environ} - {"no_proxy"}
    if sys.platform == "linux" and not any(name.endswith("_proxy") for name in names):
        return False
    from urllib.request import getproxies

    return bool(getproxies().keys() - {"no"})


def not_ready(error: Exception, settings: str = PROXIES) -> ModelError:
    """The sentence for settings in the environment that no client can be made with."""
    hint = f"look at the {settings} in the environment"
    return ModelError(f"no connection can be made ready: {type(error).__name__}: {error}", hint=hint)


@cache
def certificates() -> ssl.SSLContext:
    """Those of SSL_CERT_FILE or the system; reading them takes a while, and each proxy would read them again."""
    import httpx2

    return httpx2.create_ssl_context()


def asked(error: Exception, endpoint: Endpoint, base: httpx2.URL) -> Endpoint:
    """The server that an error tells of: not the one at ``base`` where that has sent us on."""
    request: httpx2.Request | None = getattr(error, "_request", None)
    if request is None or (request.url.host, request.url.port) == (base.host, base.port):
        return endpoint
    target = f"{request.url.scheme}://{request.url.netloc.decode()}"
    return replace(endpoint, address=f"{target}, to which {endpoint.address} sends us on,")


def broken(error: BaseException, endpoint: Endpoint) -> ProviderFailure:
    """The failure behind an answer that did not come to its end."""
    import httpx2

    why = str(error)
    astray = isinstance(error, httpx2.TooManyRedirects | httpx2.UnsupportedProtocol) or "location header" in why
    return endpoint.astray(why) if astray else endpoint.cut_off()


class EventReader:
    """The server-sent events of an answer."""

    def __init__(self, response: HttpAnswer) -> None:
        self._response = response
        self._lines = SseReader()
        self._size = 0

    async def read(self) -> list[str]:
        """The data of those that came together; none once the answer has ended."""
        while piece := await self._response.read_piece():
            self._size += len(piece)
            if self._size > LONGEST_ANSWER:
                raise TooLong(TOO_LONG.format(LONGEST_ANSWER))
            if events := self._lines.feed(piece):
                return events
        return self._lines.close()


async def read_beginning(response: HttpAnswer, limit: int = LONGEST_ERROR) -> str:
    """As much of a body as is worth reading."""
    found = bytearray()
    while len(found) <= limit and (piece := await response.read_piece()):
        found += piece
    return found[:limit].decode("utf-8", "replace")
