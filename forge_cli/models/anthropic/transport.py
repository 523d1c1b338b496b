"""The way to the API: key and address, a contract for every transport, and the plain one over HTTP without the SDK."""

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
OTHER_WAYS = "or take another model: -m openai:MODEL for any OpenAI-compatible server, -m script:FILE needs no key"
VERSION = "2026-10-21"
"""The value of ``anthropic-version``, as the SDK does."""
CUSTOM_HEADERS = "ANTHROPIC_CUSTOM_HEADERS"
_HEADER = re.compile(r"(?!(?:content-length|transfer-encoding)$)[\w!#$%&'*+.^`|~-]+", re.ASCII)
"""The name of a header, but for those that say where a request ends."""
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
"""The statuses that errors have which come in the middle of a stream, where the status was 200 long before."""


@dataclass(frozen=True)
class Credentials:
    """A secret, the variable it is meant for, the address it is for (None is Anthropic's own), and where it is from."""

    variable: str
    secret: str = field(repr=False)
    address: str | None = field(default=None, repr=False)
    source: str = "environment"

    @property
    def endpoint(self) -> Endpoint:
        """The address as people may see it: a password can stand before the host, a key behind the path."""
        parts = urlsplit(self.address or OFFICIAL)
        shown = parts._replace(
            netloc=parts.netloc.rpartition("@")[2], query="", fragment=""
        ).geturl()
        return Endpoint(
            address=shown,
            address_variable=ADDRESS,
            key_variable=KEY,
            key_source=self.variable
            if self.source == "environment"
            else f"{self.source} for {self.variable}",
            status_page=STATUS_PAGE if parts.hostname == urlsplit(OFFICIAL).hostname else None,
        )

    @classmethod
    def find(cls, model: str) -> Credentials:
        """The values of the environment, or those that are stored; an unusable part of it is named, and never shown."""
        key = find_key(KEY, TOKEN)
        if key is None:
            hint = "forge keys set anthropic stores a key from https://platform.claude.com/settings/keys"
            raise ModelError(
                f"{KEY} is not set, and {model} needs it", hint=f"{hint}, {OTHER_WAYS}"
            )
        if not (key.value.isascii() and key.value.isprintable()) or " " in key.value:
            raise ModelError(
                f"{key.variable} holds characters that no key has",
                hint="copy it again, and nothing else",
            )
        _custom_headers()
        return cls(
            key.variable, key.value, _address(os.environ.get(ADDRESS, "").strip()), key.origin
        )


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
    """One way to the API."""

    @property
    def endpoint(self) -> Endpoint: ...

    def events(self, body: bytes, model: str) -> AsyncGenerator[list[Any]]:
        """Send a request that is encoded already; its events as data, those that came together in one list.

        What goes wrong is a ProviderFailure, as is a silence.
        """
        ...

    def redact(self, text: str) -> str:
        """The text without the key, should a server have sent it back."""
        ...

    async def aclose(self) -> None: ...


class HttpTransport:
    """Bytes out and events back, without the SDK."""

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
        """Refuse what is not a stream of the API."""
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
        if isinstance(data, dict) and data.get("type", "error") == "error" and "error" in data:
            message, code = read_error(event)
            raise refused_in_stream(self.endpoint, code, message, headers, model)
        return data

    async def aclose(self) -> None:
        await self._client.aclose()


def messages_url(base: str) -> str:
    """The path of conversations, behind the address of a server."""
    parts = urlsplit(base)
    return parts._replace(path=parts.path.rstrip("/") + _PATH, fragment="").geturl()


def _headers(access: Credentials) -> dict[str, str]:
    """As the SDK sends them, those that ANTHROPIC_CUSTOM_HEADERS adds line by line included."""
    return {
        "accept": "application/json",
        "anthropic-version": VERSION,
        "authorization": f"Bearer {access.secret}",
        **_custom_headers(),
    }


def _custom_headers() -> dict[str, str]:
    """Those of the environment; one that no request can have would look like a server that breaks off."""
    lines = [line.partition(":") for line in os.environ.get(CUSTOM_HEADERS, "").split("\n")]
    found = {
        name.strip().lower(): value.strip()
        for name, colon, value in lines
        if colon and name.strip()
    }
    for name, value in found.items():
        if not _HEADER.fullmatch(name) or not (value.isascii() and value.isprintable()):
            raise ModelError(
                f"{CUSTOM_HEADERS} holds a line that is no header", hint="write each as Name: value"
            )
    return found


def check_type(headers: Mapping[str, str], endpoint: Endpoint) -> None:
    """A success that cannot be a stream: something else than the API answers at this address.

    Gateways drop or change the type of a sound stream, so every other type is read.
    """
    found = media_type(headers)
    if found in _NO_STREAM or found.partition("/")[0] in ("image", "audio", "video", "font"):
        raise _instead(found, endpoint)


def no_events(headers: Mapping[str, str], endpoint: Endpoint) -> ProviderFailure:
    """The failure of an answer without an event: where its type is that of a stream, another try may help."""
    found = media_type(headers)
    if found in _STREAMS:
        return endpoint.garbage("a stream in which there is no event")
    return _instead(found, endpoint)


def _instead(found: str, endpoint: Endpoint) -> ProviderFailure:
    return endpoint.garbage(
        f"{found or 'something without a type'} instead of a stream", attempts=1
    )


def refused_in_stream(
    endpoint: Endpoint, code: str, message: str, headers: Mapping[str, str], model: str
) -> ProviderFailure:
    """The failure behind an error that comes where the answer should."""
    said = f"{code}: {shortened(message)}{name_request(headers)}"
    return endpoint.refused(
        _STATUS_OF.get(code, 400), said, code=code, headers=headers, model=model
    )


def name_request(headers: Mapping[str, str]) -> str:
    """``; request ID``, for questions to Anthropic about it."""
    found = headers.get("request-id")
    return f"; request {shortened(found)}" if found else ""
