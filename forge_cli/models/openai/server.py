"""The server at the other end of the line: its models, one request out, the chunks of one answer back."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import anyio

from forge_cli.core.errors import ModelError
from forge_cli.core.messages import ListedModel
from forge_cli.core.wire import JsonObject
from forge_cli.models.failures import Endpoint, ProviderFailure, http_text, read_error
from forge_cli.models.http import LONGEST_ANSWER, EventReader, HttpAnswer, HttpClient, Timeouts
from forge_cli.models.openai.answer import are_useful, is_done
from forge_cli.sandbox.secrets import own_redactor

PATIENCE = 3.0
"""Seconds that a server has to say which models it has."""
_CHAT = re.compile(
    r"(gpt-\d|o\d)(?!.*(audio|realtime|transcribe|search|image|tts|research|instruct|vision|-\d{4}))"
)
BASE_URL = "OPENAI_BASE_URL"
KEY = "OPENAI_API_KEY"
OFFICIAL = "https://api.openai.com/v1"
STATUS_PAGE = "https://status.openai.com"
_PATH = "/chat/completions"
_DONE = "[DONE]"
LAST_WORDS = 3.0
"""Seconds for usage and the end of the stream, once the model has said that it is done."""
LONGEST_READING = 3600.0
"""Seconds that a server on this machine may read a prompt before it says the first word."""
WANTS_PROGRESS = "return_progress"
PROGRESS = "prompt_progress"
"""The field of a request that llama.cpp answers with how much of the prompt it has read, and that of the chunk."""


def known_models() -> list[ListedModel]:
    """OpenAI's models for conversations, by the table of genai-prices; another server may have any other."""
    if os.environ.get(BASE_URL, "").strip():
        return []
    from genai_prices.data import providers

    own = next(provider for provider in providers if provider.id == "openai")
    chats = (each for each in own.models if each.context_window and _CHAT.match(each.id))
    return [ListedModel(each.id, each.context_window) for each in chats]


async def ask_server(server: Server) -> Sequence[ListedModel]:
    """The answer of the server to ``/models``, within a short time."""
    try:
        with anyio.fail_after(PATIENCE):
            text = await server.get("/models")
    except TimeoutError:
        raise ModelError(server.endpoint.read_timeout(PATIENCE).problem) from None
    except ProviderFailure as failure:
        raise ModelError(server.clean(failure.problem), hint=failure.hint) from None
    finally:
        with anyio.CancelScope(shield=True):
            await server.aclose()
    return read_models(text)


def read_models(text: str) -> list[ListedModel]:
    """The models in an answer; servers tell a window under different names, or not at all."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    items = found.get("data") if isinstance(found, dict) else None
    models = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    return [
        ListedModel(name, _window(item))
        for item in models
        if isinstance(name := item.get("id"), str) and name
    ]


def _window(item: dict[str, Any]) -> int | None:
    meta = item.get("meta")
    places = (item, meta if isinstance(meta, dict) else {})
    for place in places:
        for key in ("max_model_len", "context_length", "n_ctx", "n_ctx_train"):
            value = place.get(key)
            if type(value) is int and value > 0:
                return value
    return None


@dataclass(kw_only=True)
class Server:
    """The address of the server, and the key for it."""

    url: str = field(repr=False)
    endpoint: Endpoint
    key: str | None = field(default=None, repr=False)
    timeouts: Timeouts = field(default_factory=Timeouts)
    is_local: bool = False
    """True if it runs on this machine, which may be slow."""

    def __post_init__(self) -> None:
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        self._client = HttpClient(
            url=self.url, endpoint=self.endpoint, headers=headers, timeouts=self.timeouts
        )

    @classmethod
    def at(
        cls,
        base: str,
        key: str | None = None,
        timeouts: Timeouts | None = None,
        *,
        key_source: str = KEY,
    ) -> Server:
        """The server behind a base URL, which is looked at before anything is sent."""
        address = _read_address(base)
        if address is None:
            raise ModelError(
                f"{BASE_URL} is not the address of a server",
                hint="it begins with http:// or https://, such as http://127.0.0.1:8080/v1",
            )
        if key is not None and not (key.isascii() and key.isprintable()):
            raise ModelError(
                f"{KEY} holds characters that no key has",
                hint="copy it again, without spaces around it",
            )
        endpoint = Endpoint(
            address=address.shown,
            address_variable=BASE_URL,
            key_variable=KEY,
            key_source=key_source if key else None,
            status_page=STATUS_PAGE if address.is_official else None,
        )
        local = Timeouts(first=LONGEST_READING) if address.is_local else Timeouts()
        timeouts = timeouts or local
        return cls(
            url=address.url,
            endpoint=endpoint,
            key=key,
            timeouts=timeouts,
            is_local=address.is_local,
        )

    def clean(self, text: str) -> str:
        """The text without the key, should a server have sent it back."""
        return own_redactor({KEY: self.key or ""}).redact_text(text)

    async def chunks(self, body: bytes, model: str) -> AsyncGenerator[list[JsonObject]]:
        """Send one request; the chunks of its answer, those that came together in one list.

        What goes wrong is a ProviderFailure.
        """
        async with self._client.request("POST", body=body) as response:
            await self._check(response, model)
            if response.media_type == "application/json":
                yield [self._whole(await response.read_beginning(LONGEST_ANSWER), model)]
                return
            events = EventReader(response)
            some = False
            done = False
            while together := await events.read():
                some = True
                chunks = list[JsonObject]()
                try:
                    for text in together:
                        if text.strip() == _DONE:
                            break
                        chunks.append(self._chunk(text, model))
                except ProviderFailure:
                    yield chunks
                    raise
                if are_useful(chunks):
                    response.patience.renew()
                elif any(PROGRESS in chunk for chunk in chunks):
                    response.patience.extend()
                done = done or any(map(is_done, chunks))
                if done:
                    response.patience.left = min(response.patience.left, LAST_WORDS)
                yield chunks
                if len(chunks) < len(together):
                    await response.drain()
                    return
        raise (
            self.endpoint.cut_off()
            if some
            else self.endpoint.garbage("a stream in which there is no event")
        )

    def _whole(self, text: str, model: str) -> JsonObject:
        """The answer of a server that does not stream."""
        chunk = self._chunk(text, model)
        if "choices" not in chunk:
            raise self.endpoint.garbage(text, attempts=1)
        return chunk

    def _chunk(self, text: str, model: str) -> JsonObject:
        try:
            chunk = json.loads(text)
        except (ValueError, RecursionError):
            raise self.endpoint.garbage(text) from None
        if not isinstance(chunk, dict):
            raise self.endpoint.garbage(text)
        if error := chunk.get("error"):
            raise self._in_stream(error, model)
        return chunk

    def _in_stream(self, error: Any, model: str) -> ProviderFailure:
        """The failure behind an error that comes where the answer should; most say no status."""
        message, code = read_error(json.dumps({"error": error}))
        status = error.get("code") if isinstance(error, dict) else None
        status = status if isinstance(status, int) and status >= 400 else 500
        return self.endpoint.refused(status, message, code=code, model=model)

    async def get(self, path: str) -> str:
        """Get a path beside that of the conversations; a problem is a ProviderFailure."""
        parts = urlsplit(self.url)
        url = parts._replace(path=parts.path.removesuffix(_PATH) + path).geturl()
        async with self._client.request("GET", url) as response:
            await self._check(response, "")
            return await response.read_beginning(LONGEST_ANSWER)

    async def _check(self, response: HttpAnswer, model: str) -> None:
        """Refuse what is not an answer of the API."""
        if response.status_code != 200:
            message, code = read_error(await response.read_beginning())
            status = response.status_code
            headers = response.headers
            raise self.endpoint.refused(
                status, http_text(status, message), code=code, headers=headers, model=model
            )
        if response.media_type == "text/html":
            raise self.endpoint.garbage(await response.read_beginning(), attempts=1)

    async def aclose(self) -> None:
        await self._client.aclose()


class _Address(NamedTuple):
    """The address of conversations, and the address of the server as people may see it."""

    url: str
    shown: str
    is_official: bool
    is_local: bool


def _read_address(base: str) -> _Address | None:
    """The parts of a base URL; None where it is not the address of a server."""
    try:
        parts = urlsplit(base)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return None
    if not usable or not base.isprintable() or " " in base:
        return None
    path = parts.path.rstrip("/").removesuffix(_PATH)
    url = parts._replace(path=path + _PATH, fragment="").geturl()
    shown = parts._replace(
        netloc=parts.netloc.rpartition("@")[2], path=path, query="", fragment=""
    ).geturl()
    host = parts.hostname or ""
    is_local = host in ("localhost", "::1") or host.startswith("127.")
    return _Address(url, shown, host == urlsplit(OFFICIAL).hostname, is_local)
