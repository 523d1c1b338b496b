"""An HTTP GET request to checked addresses, with redirects checked again and a size limit."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.message import Message
from typing import TYPE_CHECKING

from forge_cli import ToolError
from forge_tools_web import __version__
from forge_tools_web.addresses import Address, Resolve, addresses_of, literal, refuse_private

if TYPE_CHECKING:
    from ssl import SSLContext

    from httpx2 import URL, Response

REDIRECTS = 5
CONNECT_SECONDS = 10
PORTS = {"http": 80, "https": 443}
GZIP = zlib.MAX_WBITS | 16
HEADERS = {
    "Accept": (
        "text/html, text/markdown, text/plain, application/json, application/xml;q=0.9, */*;q=0.1"
    ),
    "Accept-Encoding": "gzip",
    "User-Agent": f"forge-tools-web/{__version__}",
}


@dataclass(frozen=True)
class Page:
    """The answer of a server as bytes."""

    url: str
    media_type: str
    charset: str | None
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Fetcher:
    """Fetches pages within limits of size and redirects; the caller limits the time."""

    resolve: Resolve
    allow_private: bool
    max_bytes: int
    tls: SSLContext | bool = True

    async def get(self, address: str, *, trusted: bool = False) -> Page:
        """Fetch a URL with its redirects; ``trusted`` allows the first host to be private."""
        url = read_url(address)
        for hop in range(REDIRECTS + 1):
            allowed = self.allow_private or (trusted and hop == 0)
            addresses = await addresses_of(
                _host(url), _port(url), self.resolve, allow_private=allowed
            )
            async with self._response(url, addresses) as response:
                if not response.has_redirect_location:
                    return await self._page(url, response)
                target = response.headers["location"]
            url = read_url(target, base=url)
        raise ToolError(f"{address} redirects more than {REDIRECTS} times")

    @asynccontextmanager
    async def _response(self, url: URL, addresses: Sequence[Address]) -> AsyncIterator[Response]:
        """Yield the answer of the first address that accepts; the name is not resolved again."""
        import httpx2

        name = None if literal(_host(url)) else _host(url).removesuffix(".")
        headers = {**HEADERS, "Host": url.netloc.decode("ascii")}
        extensions: dict[str, object] = {"timeout": {"connect": CONNECT_SECONDS}}
        if name:  # the certificate is for the name, not for the address
            extensions["sni_hostname"] = name
        try:
            async with httpx2.AsyncHTTPTransport(verify=self.tls, trust_env=False) as transport:
                for number, address in enumerate(addresses, 1):
                    pinned = url.copy_with(host=str(address))
                    request = httpx2.Request("GET", pinned, headers=headers, extensions=extensions)
                    try:
                        response = await transport.handle_async_request(request)
                    except (httpx2.ConnectError, httpx2.ConnectTimeout):
                        if number == len(addresses):
                            raise
                        continue
                    try:
                        yield response
                    finally:
                        await response.aclose()
                    return
        except httpx2.HTTPError as error:
            raise ToolError(
                f"{url} cannot be fetched: {str(error) or type(error).__name__}"
            ) from None

    async def _page(self, url: URL, response: Response) -> Page:
        if response.status_code >= 400:
            raise ToolError(
                f"{url} answered {response.status_code} {response.reason_phrase}".rstrip()
            )
        header = Message()
        header["Content-Type"] = response.headers.get("content-type", "")
        media_type = header.get_content_type() if response.headers.get("content-type") else ""
        charset = header.get_content_charset()
        return Page(str(url), media_type, charset, await self._body(url, response))

    async def _body(self, url: URL, response: Response) -> bytes:
        """Read the content; limit both the transferred and the unpacked size."""
        coding = response.headers.get("content-encoding", "identity").strip().lower()
        if coding not in ("", "identity", "gzip", "x-gzip"):
            raise ToolError(f"{url} has the encoding {coding!r}, which was not requested")
        unpack = zlib.decompressobj(GZIP) if coding.endswith("gzip") else None
        body, received = bytearray(), 0
        # Raw, because only this unpacks with a limit.
        async for chunk in response.aiter_raw():
            received += len(chunk)
            try:
                if unpack:
                    # One byte more than allowed shows an excess, and 0 would mean no limit.
                    body += unpack.decompress(chunk, self.max_bytes + 1 - len(body))
                else:
                    body += chunk
            except zlib.error:
                raise ToolError(f"{url} is declared as gzip, but it is not") from None
            if max(received, len(body)) > self.max_bytes:
                raise ToolError(f"{url} is larger than {self.max_bytes / 1e6:g} MB")
            if unpack and unpack.eof:
                break
        if unpack and not unpack.eof:
            raise ToolError(f"{url} ends before its content is complete")
        return bytes(body)


def read_url(text: str, *, base: URL | None = None) -> URL:
    """Parse a URL; raise ToolError unless it is http or https with a host and no user name."""
    import httpx2

    try:
        url = httpx2.URL(text) if base is None else base.join(text)
    except httpx2.InvalidURL as error:
        raise ToolError(f"{text!r} is not a URL: {error}") from None
    if url.scheme not in PORTS:
        raise ToolError(f"{text!r} cannot be fetched; use http:// or https://")
    if not url.host:
        raise ToolError(f"{text!r} has no host")
    if url.userinfo:
        raise ToolError("the URL contains a user name or a password; leave them out")
    if not 0 < _port(url) < 65536:
        raise ToolError(f"{text!r} has no valid port")
    return url


def check_literal(url: URL) -> None:
    """Refuse a URL whose host is a private address, without resolving names."""
    address = literal(_host(url))
    if address is not None:
        refuse_private(_host(url), [address])


def _host(url: URL) -> str:
    return url.raw_host.decode("ascii")


def _port(url: URL) -> int:
    return PORTS[url.scheme] if url.port is None else url.port
