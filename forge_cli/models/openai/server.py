"""The server at the other end of the line: one request out, the chunks of one answer back."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import field
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from forge_cli.core.errors import ModelError
from forge_cli.core.silence import Patience
from forge_cli.core.values import dataclass
from forge_cli.core.wire import JsonObject
from forge_cli.models.direct import HttpAnswer
from forge_cli.models.failures import Endpoint, ProviderFailure, http_text, read_error
from forge_cli.models.http import EventReader, HttpLine, HttpRequest, Timeouts, read_beginning
from forge_cli.models.openai.answer import are_useful
from forge_cli.sandbox.secrets import own_redactor

BASE_URL, KEY = "OPENAI_BASE_URL", "OPENAI_API_KEY"
OFFICIAL, STATUS_PAGE = "https://api.openai.com/v1", "https://status.openai.com"
_PATH = "/chat/completions"
_LONGEST_ANSWER = 16 * 2**20
_read_json = json.JSONDecoder().raw_decode
REST = 1.0
"""Seconds in which an answer ends that is complete."""


@dataclass(kw_only=True)
class Server:
    """Where to ask, and with which key."""

    url: str = field(repr=False)
    endpoint: Endpoint
    key: str | None = field(default=None, repr=False)
    timeouts: Timeouts = field(default_factory=Timeouts)

    def __post_init__(self) -> None:
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        self._line = HttpLine(url=self.url, endpoint=self.endpoint, headers=headers, timeouts=self.timeouts)

    @classmethod
    def at(
        cls, base: str, key: str | None = None, timeouts: Timeouts | None = None, *, key_source: str = KEY
    ) -> Server:
        """The server behind a base URL, which is looked at before anything is sent."""
        address = _read_address(base)
        if address is None:
            raise ModelError(
                f"{BASE_URL} is not the address of a server",
                hint="it begins with http:// or https://, such as http://127.0.0.1:8080/v1",
            )
        if key is not None and not (key.isascii() and key.isprintable()):
            raise ModelError(f"{KEY} holds characters that no key has", hint="copy it again, without spaces around it")
        endpoint = Endpoint(
            address=address.shown,
            address_variable=BASE_URL,
            key_variable=KEY,
            key_source=key_source if key else None,
            status_page=STATUS_PAGE if address.is_official else None,
        )
        return cls(url=address.url, endpoint=endpoint, key=key, timeouts=timeouts or Timeouts())

    def clean(self, text: str) -> str:
        """The text without the key, should a server have sent it back."""
        return own_redactor({KEY: self.key or ""}).redact_text(text)

    def send(self, body: bytes) -> HttpRequest:
        """Send one request, within whose ``async with`` its answer is heard."""
        return self._line.request("POST", body=body)

    async def hear(self, response: HttpAnswer, model: str) -> ChatStream:
        """The answer to a request; what goes wrong is a ProviderFailure."""
        await self._check(response, model)
        stream = ChatStream(self.endpoint, response, model)
        if response.headers.get("content-type", "").startswith("application/json"):
            stream.take_whole(await read_beginning(response, _LONGEST_ANSWER))
        return stream

    async def get(self, path: str) -> str:
        """What the server says at a path beside that of the conversations; what goes wrong is a ProviderFailure."""
        parts = urlsplit(self.url)
        url = parts._replace(path=parts.path.removesuffix(_PATH) + path).geturl()
        async with self._line.request("GET", url) as response:
            await self._check(response, "")
            return await read_beginning(response, _LONGEST_ANSWER)

    async def _check(self, response: HttpAnswer, model: str) -> None:
        """Refuse what is not an answer of the API."""
        if response.status_code != 200:
            message, code = read_error(await read_beginning(response))
            status, headers = response.status_code, response.headers
            raise self.endpoint.refused(status, http_text(status, message), code=code, headers=headers, model=model)
        if response.headers.get("content-type", "").startswith("text/html"):
            raise self.endpoint.garbage(await read_beginning(response), attempts=1)

    async def aclose(self) -> None:
        await self._line.aclose()


class ChatStream:
    """The chunks of one answer, as they come."""

    def __init__(self, endpoint: Endpoint, response: HttpAnswer, model: str) -> None:
        self._endpoint, self._response, self._model = endpoint, response, model
        self._events = EventReader(response)
        self._has_begun = False
        self._whole: list[JsonObject] = []
        """An answer that is no stream, until it is read."""
        self._failure: ProviderFailure | None = None
        """What came behind the last chunks that were read."""
        self._is_complete = False

    def take_whole(self, text: str) -> None:
        """The text of an answer that is no stream."""
        chunk = self._chunk(text.strip())
        if "choices" not in chunk:
            raise self._endpoint.garbage(text, attempts=1)
        self._whole, self._is_complete = [chunk], True

    async def read(self) -> list[JsonObject]:
        """Those that came together; none once the answer is complete."""
        if self._whole:
            whole, self._whole = self._whole, []
            return whole
        while not self._is_complete:
            if self._failure:
                raise self._failure
            events = await self._events.read()
            if not events and self._has_begun:
                raise self._endpoint.cut_off()
            if not events:
                raise self._endpoint.garbage("a stream in which there is no event")
            self._has_begun = True
            if chunks := self._decode(events):
                if are_useful(chunks):
                    self._response.patience.renew()
                return chunks
        if not self._response.is_read:
            await self._read_rest()
        return []

    def _decode(self, events: list[str]) -> list[JsonObject]:
        """The chunks in events, up to the end of the answer, or the first in which there is none."""
        chunks: list[JsonObject] = []
        try:
            for event in events:
                text = event.strip()
                if text == "[DONE]":
                    self._is_complete = True
                    break
                chunks.append(self._chunk(text))
        except ProviderFailure as failure:
            self._failure = failure
        return chunks

    def _chunk(self, text: str) -> JsonObject:
        """The object that the text is, which has no space around it."""
        try:
            chunk, end = _read_json(text)
        except (ValueError, RecursionError):
            raise self._endpoint.garbage(text) from None
        if end != len(text) or not isinstance(chunk, dict):
            raise self._endpoint.garbage(text)
        if error := chunk.get("error"):
            raise self._in_stream(error)
        return chunk

    def _in_stream(self, error: Any) -> ProviderFailure:
        """The failure behind an error that comes where the answer should; most say no status."""
        message, code = read_error(json.dumps({"error": error}))
        status = error.get("code") if isinstance(error, dict) else None
        status = status if isinstance(status, int) and status >= 400 else 500
        return self._endpoint.refused(status, message, code=code, model=self._model)

    async def _read_rest(self) -> None:
        """Read on to the end of an answer, which follows at once, so that its connection serves the next request."""
        self._response.patience = Patience(REST)
        with suppress(Exception):  # the answer is complete: whatever breaks now says nothing about it
            while await self._events.read():
                pass


class _Address(NamedTuple):
    """Where conversations are held, and the address of the server as people may see it."""

    url: str
    shown: str
    is_official: bool


@lru_cache(maxsize=8)
def _read_address(base: str) -> _Address | None:
    """What a base URL says; None where it is no address of a server."""
    try:
        parts = urlsplit(base)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return None
    if not usable or not base.isprintable() or " " in base:
        return None
    path = parts.path.rstrip("/").removesuffix(_PATH)
    url = parts._replace(path=path + _PATH, fragment="").geturl()
    shown = parts._replace(netloc=parts.netloc.rpartition("@")[2], path=path, query="", fragment="").geturl()
    return _Address(url, shown, parts.hostname == urlsplit(OFFICIAL).hostname)
