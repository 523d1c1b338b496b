"""Access control of the page: a token, and protection against requests from other pages.

The files of the page are not private. Everything else needs a token. It is no cookie, because
browsers send the cookies of one port to all ports of the host.
"""

from __future__ import annotations

import hmac
import html
import secrets
import sys
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from msgspec import Struct
from starlette.datastructures import MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, Response

from forge_cli.core.text import visible
from forge_cli.core.wire import error_text
from forge_cli.ui.http import Headers, let_in, read_headers

MAX_BODY = 20 * 1024 * 1024
"""Bytes of a request body."""
# The page shows text of models and tools: no scripts but its own, and no other servers.
POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'; object-src 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every response."""
REFUSAL_PAGE = Path(__file__).with_name("refusal.html")
"""The page of a refusal, for browsers."""
PRIVATE = "/api/"
"""The prefix of paths that need a token."""
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")  # names that a browser on this machine may use
UNKNOWN = "the secret is missing or wrong; open the address that forge web printed"
USED = "this address was already used; open the address that forge web printed last"
METHODS = frozenset({"GET", "HEAD", "POST"})
OWN_SITES = frozenset({"same-origin", "none"})
"""Values of ``Sec-Fetch-Site`` for requests from the page itself or the address bar."""


class RefusedRequest(Struct, frozen=True):
    """The status and the reason of a refused request."""

    status: int
    sentence: str


TOO_LARGE = RefusedRequest(413, f"the request has more than {MAX_BODY} bytes")


class _TooLarge(Exception):
    """A body that is larger than ``MAX_BODY``."""


class PageAccess:
    """The secret in the printed address, the tokens given for it, and the allowed host names."""

    def __init__(self, port: int, host: str = "127.0.0.1", secret: str | None = None) -> None:
        self.port = port
        self.host = host
        self.secret = secret or secrets.token_urlsafe(32)
        """Valid once: to exchange for a token, or as the token of the program that reads it."""
        self._tokens: set[str] = set()
        self._used: set[str] = set()
        """Exchanged secrets, which are refused with another message."""

    @property
    def url(self) -> str:
        """The address of the page with the secret."""
        host = "127.0.0.1" if _is_every_address(self.host) else self.host
        if ":" in host:
            host = f"[{host}]"
        return f"http://{host}:{self.port}/?secret={self.secret}"

    def refuse(self, method: str, path: str, headers: Headers) -> RefusedRequest | None:
        """Return the reason to refuse a request; None to accept it."""
        if method not in METHODS:
            return RefusedRequest(403, f"the method {visible(method)} is not supported")
        hosts = headers.get("host", [])
        if len(hosts) != 1 or not self._is_own_host(hosts[0]):  # stops DNS rebinding
            return RefusedRequest(403, "this server does not answer under that host name")
        # Programs send neither header, and a page cannot forge them.
        is_own_origin = all(each == f"http://{hosts[0]}" for each in headers.get("origin", []))
        if not is_own_origin or not OWN_SITES.issuperset(headers.get("sec-fetch-site", [])):
            return RefusedRequest(403, "other pages must not use this server")
        if path.startswith(PRIVATE):
            given = list(_bearers(headers))
            if not any(map(self._is_known, given)):
                return RefusedRequest(403, USED if self._used.intersection(given) else UNKNOWN)
        if method == "POST" and not _is_json(headers):
            # Browsers send other content types from foreign pages without asking the server first.
            return RefusedRequest(403, "the header Content-Type: application/json is required")
        # Refuse before the body is read; a body without a length is counted later.
        for size in headers.get("content-length", []):
            if not size.isdecimal() or int(size) > MAX_BODY:
                return TOO_LARGE
        return None

    def exchange(self, secret: str) -> str | None:
        """Exchange a valid secret for a token and replace it; return None if it is invalid."""
        if not _equal(secret, self.secret) or secret in self._tokens:  # in use by a program
            return None
        token = secrets.token_urlsafe(32)
        self._tokens.add(token)
        self._used.add(self.secret)
        self.secret = secrets.token_urlsafe(32)
        return token

    def _is_known(self, given: str) -> bool:
        if _equal(given, self.secret):
            # A program that uses the secret as its token keeps it: it can no longer be exchanged.
            self._tokens.add(given)
        return any(_equal(given, token) for token in self._tokens)

    def _is_own_host(self, host: str) -> bool:
        name, colon, port = host.rpartition(":")
        if not colon or port != str(self.port):
            return False
        if name in LOOPBACK or name.strip("[]") == self.host:
            return True
        # An attacker can make a name resolve to this machine, but not an address.
        return _is_every_address(self.host) and _is_address(name.strip("[]"))


class AccessGate:
    """An ASGI app that checks requests, limits their bodies and adds headers to responses."""

    def __init__(
        self, app: Any, access: PageAccess, on_exchange: Callable[[], None] = lambda: None
    ) -> None:
        self._app = app
        self._access = access
        self._on_exchange = on_exchange

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        headers = read_headers(scope)
        path = scope["path"]
        if refused := self._access.refuse(scope["method"], path, headers):
            is_page = any("text/html" in kinds.lower() for kinds in headers.get("accept", []))
            response = _refusal(refused, as_page=is_page and not path.startswith(PRIVATE))
            await response(scope, receive, send)
            return
        secret = _secret_in(scope)
        token = None
        if secret is not None:
            token = self._access.exchange(secret)
        if token:
            scope["state"]["token"] = token
            self._on_exchange()
        if token or path.startswith(PRIVATE):
            let_in(scope)
        await self._pass_on(scope, receive, send)

    async def _pass_on(self, scope: Any, receive: Any, send: Any) -> None:
        size = 0
        started = False

        async def receive_bounded() -> Any:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > MAX_BODY:
                raise _TooLarge
            return message

        async def send_with_headers(message: Any) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._app(scope, receive_bounded, send_with_headers)
        except _TooLarge:
            if not started:  # else the status is already sent
                await _refusal(TOO_LARGE)(scope, receive, send)
        except Exception as error:  # a failed request must not end the server
            sys.stderr.write(f"forge: internal error: {visible(error_text(error))}\n")
            if not started:
                failed = RefusedRequest(500, f"internal error: {error_text(error)}")
                await _refusal(failed)(scope, receive, send)


def _refusal(refused: RefusedRequest, *, as_page: bool = False) -> Response:
    if as_page:
        page = REFUSAL_PAGE.read_text("utf-8").format(sentence=html.escape(refused.sentence))
        return HTMLResponse(page, refused.status, HEADERS)
    return JSONResponse({"error": refused.sentence}, refused.status, HEADERS)


def _bearers(headers: Headers) -> Iterable[str]:
    """Yield the secrets and tokens in the headers of a request."""
    for line in headers.get("authorization", []):
        scheme, _, value = line.partition(" ")
        if scheme.lower() == "bearer":
            yield value.strip()


def _equal(given: str, known: str) -> bool:
    """Compare in constant time, so that timing does not reveal a secret."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), known.encode())


def _secret_in(scope: Any) -> str | None:
    """Return the secret in the address of the page, if there is one."""
    if scope["method"] != "GET" or scope["path"] != "/" or b"secret=" not in scope["query_string"]:
        return None
    given = parse_qs(scope["query_string"].decode("latin-1")).get("secret", [])
    return given[0] if len(given) == 1 else None


def _is_json(headers: Headers) -> bool:
    kinds = headers.get("content-type", [])
    return len(kinds) == 1 and kinds[0].partition(";")[0].strip().lower() == "application/json"


def _is_every_address(host: str) -> bool:
    return host in ("0.0.0.0", "::")  # noqa: S104


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
