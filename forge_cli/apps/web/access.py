"""Access to the page: with a token, and from the page itself; no other page, name or neighbour gets through.

The files of the page hold nothing private, and everyone who reaches the server by its own name may load them. All else
needs a token, which is no cookie: browsers send the cookies of one port to every other port of the same host.
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

BODY_MAX = 20 * 1024 * 1024
"""Bytes of one request."""
POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Part of every response."""
REFUSAL_PAGE = Path(__file__).with_name("refusal.html")
"""The page of a refusal, for browsers that came by a wrong name."""
PRIVATE = "/api/"
"""The beginning of the paths that need a token."""
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
UNKNOWN = "open the address that forge web has printed: the secret is missing or wrong"
USED = (
    "this address was used before, and is good once: open the one that forge web has printed last"
)
METHODS = frozenset({"GET", "HEAD", "POST"})
OWN_SITES = frozenset({"same-origin", "none"})
"""Values of a header of requests that come from the page itself, or from the address bar."""


class RefusedRequest(Struct, frozen=True):
    """Why a request does not get through."""

    status: int
    sentence: str


TOO_LARGE = RefusedRequest(413, f"a request may have {BODY_MAX} bytes at most")


class _TooLarge(Exception):
    """A body that continues where it should have ended."""


class PageAccess:
    """The secret of the printed address, the tokens that were given for it, and the names a request may come by."""

    def __init__(self, port: int, host: str = "127.0.0.1", secret: str | None = None) -> None:
        self.port = port
        self.host = host
        self.secret = secret or secrets.token_urlsafe(32)
        """Good once: for a token, or as the token of the program that has read the address."""
        self._tokens: set[str] = set()
        self._used: set[str] = set()
        """Secrets that were exchanged, which are refused with a sentence of their own."""

    @property
    def url(self) -> str:
        """The address of the page, with the secret."""
        host = "127.0.0.1" if _is_every_address(self.host) else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/?secret={self.secret}"

    def refuse(self, method: str, path: str, headers: Headers) -> RefusedRequest | None:
        """Why a request is refused, if it is."""
        if method not in METHODS:
            return RefusedRequest(403, f"{visible(method)} is not used here")
        hosts = headers.get("host", [])
        if len(hosts) != 1 or not self._is_own_host(hosts[0]):
            return RefusedRequest(403, "this server is not reached by that name")
        if any(origin != f"http://{hosts[0]}" for origin in headers.get("origin", [])):
            return RefusedRequest(403, "no other page may use this server")
        if not OWN_SITES.issuperset(headers.get("sec-fetch-site", [])):
            return RefusedRequest(403, "no other page may use this server")
        if path.startswith(PRIVATE):
            given = list(_bearers(headers))
            if not any(map(self._is_known, given)):
                return RefusedRequest(403, USED if self._used.intersection(given) else UNKNOWN)
        if method == "POST" and not _is_json(headers):
            return RefusedRequest(403, "a request needs the header Content-Type: application/json")
        if any(
            not size.isdecimal() or int(size) > BODY_MAX
            for size in headers.get("content-length", [])
        ):
            return TOO_LARGE
        return None

    def exchange(self, secret: str) -> str | None:
        """Return a token for the secret, if it is still good, and take another secret for the next address."""
        if not _equal(secret, self.secret) or secret in self._tokens:
            return None
        token = secrets.token_urlsafe(32)
        self._tokens.add(token)
        self._used.add(self.secret)
        self.secret = secrets.token_urlsafe(32)
        return token

    def _is_known(self, given: str) -> bool:
        if _equal(given, self.secret):
            self._tokens.add(
                given
            )  # a program that uses the secret itself keeps it, and no one else can exchange it
        return any(_equal(given, token) for token in self._tokens)

    def _is_own_host(self, host: str) -> bool:
        name, colon, port = host.rpartition(":")
        if not colon or port != str(self.port):
            return False
        if name in LOOPBACK or name.strip("[]") == self.host:
            return True
        # the owner of a name can make it lead here, an address cannot
        return _is_every_address(self.host) and _is_address(name.strip("[]"))


class AccessGate:
    """Lets the requests through that may be made, bounds their bodies, and adds the headers of every response."""

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
        token = self._access.exchange(secret) if secret is not None else None
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
            if size > BODY_MAX:
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
            if not started:
                await _refusal(TOO_LARGE)(scope, receive, send)
        except (
            Exception
        ) as error:  # the outermost frame of a request: one that fails must not end the others
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
    """The secrets and tokens that a request has brought."""
    for line in headers.get("authorization", []):
        scheme, _, value = line.partition(" ")
        if scheme.lower() == "bearer":
            yield value.strip()


def _equal(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), known.encode())


def _secret_in(scope: Any) -> str | None:
    """The secret in the address of the page, if there is one."""
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
