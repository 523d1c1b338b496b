"""The server at the other end of the line: one request out, the chunks of one answer back."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import field
from typing import Any
from urllib.parse import SplitResult, urlsplit

from forge_cli.core.errors import ModelError
from forge_cli.core.silence import Patience
from forge_cli.core.values import dataclass
from forge_cli.core.wire import JsonObject
from forge_cli.models.direct import HttpAnswer
from forge_cli.models.failures import Endpoint, ProviderFailure, http_text, read_error
from forge_cli.models.http import EventReader, HttpLine, Timeouts, read_beginning
from forge_cli.models.openai.answer import are_useful
from forge_cli.sandbox.secrets import own_redactor

BASE_URL, KEY = "OPENAI_BASE_URL", "OPENAI_API_KEY"
OFFICIAL, STATUS_PAGE = "https://api.openai.com/v1", "https://status.openai.com"
_PATH = "/chat/completions"
_LONGEST_ANSWER = 16 * 2**20
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
        parts = _address(base)
        if parts is None:
            raise ModelError(
                f"{BASE_URL} is not the address of a server",
                hint="it begins with http:// or https://, such as http://127.0.0.1:8080/v1",
            )
        if key is not None and not (key.isascii() and key.isprintable()):
            raise ModelError(f"{KEY} holds characters that no key has", hint="copy it again, without spaces around it")
        path = parts.path.rstrip("/").removesuffix(_PATH)
        url = parts._replace(path=path + _PATH, fragment="").geturl()
        shown = parts._replace(netloc=parts.netloc.rpartition("@")[2], path=path, query="", fragment="").geturl()
        endpoint = Endpoint(
            address=shown,
            address_variable=BASE_URL,
            key_variable=KEY,
            key_source=key_source if key else None,
            status_page=STATUS_PAGE if parts.hostname == urlsplit(OFFICIAL).hostname else None,
        )
        return cls(url=url, endpoint=endpoint, key=key, timeouts=timeouts or Timeouts())

    def clean(self, text: str) -> str:
        """The text without the key, should a server have sent it back."""
        return own_redactor({KEY: self.key or ""}).redact_text(text)

    async def chunks(self, body: bytes, model: str) -> AsyncGenerator[list[JsonObject]]:
        """Send one request and read its answer, what comes together at once; what goes wrong is a ProviderFailure."""
        async with self._line.request("POST", body=body) as response:
            await self._check(response, model)
            if response.headers.get("content-type", "").startswith("application/json"):
                answer = await read_beginning(response, _LONGEST_ANSWER)
                chunk = self._chunk(answer, model)
                if "choices" not in chunk:
                    raise self.endpoint.garbage(answer, attempts=1)
                yield [chunk]
                return
            events, some = EventReader(response), False
            while together := await events.read():
                end = next((place for place, event in enumerate(together) if event.strip() == "[DONE]"), None)
                some = some or end != 0
                chunks, failure = self._decode(together[:end], model)
                if are_useful(chunks):
                    response.patience.renew()
                if chunks:
                    yield chunks
                if failure:
                    raise failure
                if end is not None:
                    await _read_rest(response, events)
                    return
            raise self.endpoint.cut_off() if some else self.endpoint.garbage("a stream in which there is no event")

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

    def _decode(self, events: list[str], model: str) -> tuple[list[JsonObject], ProviderFailure | None]:
        """The chunks in events, up to the first in which there is none."""
        chunks: list[JsonObject] = []
        try:
            for event in events:
                chunks.append(self._chunk(event, model))
        except ProviderFailure as failure:
            return chunks, failure
        return chunks, None

    def _chunk(self, event: str, model: str) -> JsonObject:
        try:
            chunk = json.loads(event)
        except (ValueError, RecursionError):
            raise self.endpoint.garbage(event) from None
        if not isinstance(chunk, dict):
            raise self.endpoint.garbage(event)
        if error := chunk.get("error"):
            raise self._in_stream(error, model)
        return chunk

    def _in_stream(self, error: Any, model: str) -> ProviderFailure:
        """The failure behind an error that comes where the answer should; most say no status."""
        message, code = read_error(json.dumps({"error": error}))
        status = error.get("code") if isinstance(error, dict) else None
        status = status if isinstance(status, int) and status >= 400 else 500
        return self.endpoint.refused(status, message, code=code, model=model)

    async def aclose(self) -> None:
        await self._line.aclose()


async def _read_rest(response: HttpAnswer, events: EventReader) -> None:
    """Read on to the end of an answer, which follows at once, so that its connection serves the next request."""
    response.patience = Patience(REST)
    with suppress(Exception):  # the answer is complete: whatever breaks now says nothing about it
        while await events.read():
            pass


def _address(base: str) -> SplitResult | None:
    try:
        parts = urlsplit(base)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return None
    return parts if usable and base.isprintable() and " " not in base else None
