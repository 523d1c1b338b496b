"""Transports to the API: credentials, the contract of a transport, and the one over plain HTTP."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

from forge_cli.core.errors import ModelError
from forge_cli.files.keys import find_key
from forge_cli.models.anthropic.decode import are_useful, is_last
from forge_cli.models.failures import Endpoint, ProviderFailure, http_text, read_error, shortened
from forge_cli.models.http import EventReader, HttpAnswer, HttpClient, Timeouts, media_type
from forge_cli.sandbox.secrets import own_redactor

KEY = "ANTHROPIC_API_KEY"
TOKEN = "ANTHROPIC_AUTH_TOKEN"  # noqa: S105 - the name of a variable
ADDRESS = "ANTHROPIC_BASE_URL"
OFFICIAL = "https://api.anthropic.com"
STATUS_PAGE = "https://status.claude.com"
OTHER_WAYS = (
    "or take another model: -m openai:MODEL for any OpenAI-compatible server, "
    "-m script:FILE needs no key"
)
VERSION = "2026-10-21"
"""The value of ``anthropic-version``, the same as the SDK's."""
CUSTOM_HEADERS = "ANTHROPIC_CUSTOM_HEADERS"
_HEADER = re.compile(r"(?!(?:content-length|transfer-encoding)$)[\w!#$%&'*+.^`|~-]+", re.ASCII)
"""Names of headers, except those that decide where a request ends."""
_PATH = "/v1/messages"
_STREAMS = ("text/event-stream", "application/vnd.amazon.eventstream")
_NO_STREAM = frozenset(
    {"text/html", "application/xhtml+xml", "application/json", "application/pdf", "application/zip"}
)
_STATUS_OF = {
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Statuses for errors inside a stream, whose own status was 200."""


@dataclass(frozen=True)
class Credentials:
    """A key or token, its variable and origin, and the address it is for (None: Anthropic's)."""

    variable: str
    secret: str = field(repr=False)
    address: str | None = field(default=None, repr=False)
    source: str = "environment"

    @property
    def endpoint(self) -> Endpoint:
        """The server with an address that can be shown: no password, query or fragment."""
        parts = urlsplit(self.address or OFFICIAL)
        host = parts.netloc.rpartition("@")[2]
        shown = parts._replace(netloc=host, query="", fragment="").geturl()
        source = self.variable
        if self.source != "environment":
            source = f"{self.source} for {self.variable}"
        return Endpoint(
            address=shown,
            address_variable=ADDRESS,
            key_variable=KEY,
            key_source=source,
            status_page=STATUS_PAGE if parts.hostname == urlsplit(OFFICIAL).hostname else None,
        )

    @classmethod
    def find(cls, model: str) -> Credentials:
        """Read the key and the address from the environment or the key store.

        Raise ModelError if they are unusable; the error does not contain their values.
        """
        key = find_key(KEY, TOKEN)
        if key is None:
            store = "forge keys set anthropic"
            page = "https://platform.claude.com/settings/keys"
            hint = f"{store} stores a key from {page}, {OTHER_WAYS}"
            raise ModelError(f"{KEY} is not set, and {model} needs it", hint=hint)
        if not (key.value.isascii() and key.value.isprintable()) or " " in key.value:
            problem = f"{key.variable} contains characters that are invalid in a key"
            raise ModelError(problem, hint="copy the key again, and nothing else")
        _custom_headers()  # raises if they are unusable
        address = _address(os.environ.get(ADDRESS, "").strip())
        return cls(key.variable, key.value, address, key.origin)


def _address(text: str) -> str | None:
    try:
        parts = urlsplit(text)
        usable = not text or (
            parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        )
    except ValueError:
        usable = False
    if not usable:
        raise ModelError(
            f"{ADDRESS} is not an address", hint="write it like https://example.org, or unset it"
        )
    return text or None


class Transport(Protocol):
    """A way to send requests to the API."""

    @property
    def endpoint(self) -> Endpoint: ...

    def events(self, body: bytes, model: str) -> AsyncGenerator[list[Any]]:
        """Send an encoded request, and yield its events as data, in lists as they came together.

        Raise ProviderFailure for every problem, also for a server that is silent.
        """
        ...

    def redact(self, text: str) -> str:
        """Return the text without the key, in case a server has sent it back."""
        ...

    async def aclose(self) -> None: ...


class HttpTransport:
    """Plain HTTP, without the SDK."""

    def __init__(self, access: Credentials, silence: float) -> None:
        self.endpoint = access.endpoint
        self.redact = own_redactor({access.variable: access.secret}).redact_text
        self._client = HttpClient(
            url=messages_url(access.address or OFFICIAL),
            endpoint=self.endpoint,
            headers=_headers(access),
            timeouts=Timeouts(read=silence),
            trust_env=True,
        )

    async def events(self, body: bytes, model: str) -> AsyncGenerator[list[Any]]:
        async with self._client.request("POST", body=body) as response:
            await self._check(response, model)
            events = EventReader(response)
            some = False
            while together := await events.read():
                some = True
                read = list[Any]()
                try:
                    for event in together:
                        read.append(self._read(event, response.headers, model))
                except ProviderFailure:
                    # The events before the error are still part of the answer.
                    yield read
                    raise
                if are_useful(read):
                    response.patience.renew()
                yield read
                if any(map(is_last, read)):
                    await response.drain()
                    return
        if not some:
            raise no_events(response.headers, self.endpoint)

    async def _check(self, response: HttpAnswer, model: str) -> None:
        """Raise ProviderFailure unless the answer is a stream of the API."""
        status = response.status_code
        headers = response.headers
        if not 200 <= status < 300:
            message, code = read_error(await response.read_beginning())
            said = http_text(status, message) + name_request(headers)
            raise self.endpoint.refused(status, said, code=code, headers=headers, model=model)
        check_type(headers, self.endpoint)

    def _read(self, event: str, headers: Mapping[str, str], model: str) -> Any:
        try:
            data = json.loads(event)
        except (ValueError, RecursionError):
            raise self.endpoint.garbage(event) from None
        # Gateways may leave out the type of an error.
        if isinstance(data, dict) and data.get("type", "error") == "error" and "error" in data:
            message, code = read_error(event)
            raise refused_in_stream(self.endpoint, code, message, headers, model)
        return data

    async def aclose(self) -> None:
        await self._client.aclose()


def messages_url(base: str) -> str:
    """Return the address of the messages endpoint of a server."""
    parts = urlsplit(base)
    return parts._replace(path=parts.path.rstrip("/") + _PATH, fragment="").geturl()


def _headers(access: Credentials) -> dict[str, str]:
    # as the SDK sends them, with those of ANTHROPIC_CUSTOM_HEADERS
    return {
        "accept": "application/json",
        "anthropic-version": VERSION,
        "authorization": f"Bearer {access.secret}",
        **_custom_headers(),
    }


def _custom_headers() -> dict[str, str]:
    """Return the headers of the environment; raise ModelError for an invalid one.

    Sent as they are, invalid headers would look like a server that closes the connection.
    """
    found: dict[str, str] = {}
    for line in os.environ.get(CUSTOM_HEADERS, "").split("\n"):
        name, colon, value = line.partition(":")
        if colon and name.strip():
            found[name.strip().lower()] = value.strip()
    for name, value in found.items():
        if not _HEADER.fullmatch(name) or not (value.isascii() and value.isprintable()):
            problem = f"{CUSTOM_HEADERS} contains an invalid header"
            raise ModelError(problem, hint="write each on a line as Name: value")
    return found


def check_type(headers: Mapping[str, str], endpoint: Endpoint) -> None:
    """Raise ProviderFailure if a successful answer cannot be a stream.

    Gateways drop or change the type of valid streams, so that most types are accepted.
    """
    found = media_type(headers)
    if found in _NO_STREAM or found.partition("/")[0] in ("image", "audio", "video", "font"):
        raise _instead(found, endpoint)


def no_events(headers: Mapping[str, str], endpoint: Endpoint) -> ProviderFailure:
    """Return the failure of an answer without events; if it was a stream, a retry may help."""
    found = media_type(headers)
    if found in _STREAMS:
        return endpoint.garbage("a stream without events")
    return _instead(found, endpoint)


def _instead(found: str, endpoint: Endpoint) -> ProviderFailure:
    return endpoint.garbage(
        f"{found or 'an answer without a type'} instead of a stream", attempts=1
    )


def refused_in_stream(
    endpoint: Endpoint, code: str, message: str, headers: Mapping[str, str], model: str
) -> ProviderFailure:
    """Return the failure for an error inside a stream."""
    said = f"{code}: {shortened(message)}{name_request(headers)}"
    return endpoint.refused(
        _STATUS_OF.get(code, 400), said, code=code, headers=headers, model=model
    )


def name_request(headers: Mapping[str, str]) -> str:
    """Return ``; request ID`` for questions to Anthropic's support, or an empty text."""
    found = headers.get("request-id")
    return f"; request {shortened(found)}" if found else ""
