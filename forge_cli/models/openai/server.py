"""A Chat Completions server: its models, and the chunks of its answers."""

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
from forge_cli.models.http import MAX_ANSWER_BYTES, EventReader, HttpAnswer, HttpClient, Timeouts
from forge_cli.models.openai.answer import are_useful, is_done
from forge_cli.sandbox.secrets import own_redactor

MODELS_TIMEOUT = 3.0
"""Seconds for the list of models."""
_CHAT = re.compile(
    r"(gpt-\d|o\d)(?!.*(audio|realtime|transcribe|search|image|tts|research|instruct|vision|-\d{4}))"
)
"""Models that chat; the table also has those for audio, images and search, and dated versions."""
BASE_URL = "OPENAI_BASE_URL"
KEY = "OPENAI_API_KEY"
OFFICIAL = "https://api.openai.com/v1"
STATUS_PAGE = "https://status.openai.com"
_PATH = "/chat/completions"
_DONE = "[DONE]"
FINISH_TIMEOUT = 3.0
"""Seconds for usage and the end of the stream, once the model has reported that it is done."""
MAX_PROMPT_SECONDS = 3600.0
"""Seconds that a server on this machine may read a prompt before the first word."""
WANTS_PROGRESS = "return_progress"
"""The field of a request by which llama.cpp reports how much of the prompt it has read."""
PROGRESS = "prompt_progress"
"""The field of a chunk in which llama.cpp reports it."""


def known_models() -> list[ListedModel]:
    """Return OpenAI's chat models; none if the user set an address."""
    if os.environ.get(BASE_URL, "").strip():
        return []
    from genai_prices.data import providers

    own = next(provider for provider in providers if provider.id == "openai")
    chats = (each for each in own.models if each.context_window and _CHAT.match(each.id))
    return [ListedModel(each.id, each.context_window) for each in chats]


async def ask_server(server: Server) -> Sequence[ListedModel]:
    """Return the models that a server lists at ``/models``."""
    try:
        with anyio.fail_after(MODELS_TIMEOUT):
            text = await server.get("/models")
    except TimeoutError:
        raise ModelError(server.endpoint.read_timeout(MODELS_TIMEOUT).problem) from None
    except ProviderFailure as failure:
        raise ModelError(server.clean(failure.problem), hint=failure.hint) from None
    finally:
        with anyio.CancelScope(shield=True):
            await server.aclose()
    return read_models(text)


def read_models(text: str) -> list[ListedModel]:
    """Return the models in an answer, with their windows if the server names them."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    items = None
    if isinstance(found, dict):
        items = found.get("data")
    models: list[ListedModel] = []
    for item in items if isinstance(items, list) else ():
        name = item.get("id") if isinstance(item, dict) else None
        if isinstance(name, str) and name:
            models.append(ListedModel(name, _window(item)))
    return models


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
    """A server with its key."""

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
        """Return the server at a base URL; raise ModelError if address or key are invalid."""
        address = _read_address(base)
        if address is None:
            raise ModelError(
                f"{BASE_URL} is not the address of a server",
                hint="it begins with http:// or https://, such as http://127.0.0.1:8080/v1",
            )
        if key is not None and not (key.isascii() and key.isprintable()):
            problem = f"{KEY} contains characters that are invalid in a key"
            raise ModelError(problem, hint="copy the key again, without spaces around it")
        endpoint = Endpoint(
            address=address.shown,
            address_variable=BASE_URL,
            key_variable=KEY,
            key_source=key_source if key else None,
            status_page=STATUS_PAGE if address.is_official else None,
        )
        local = Timeouts(first=MAX_PROMPT_SECONDS) if address.is_local else Timeouts()
        timeouts = timeouts or local
        return cls(
            url=address.url,
            endpoint=endpoint,
            key=key,
            timeouts=timeouts,
            is_local=address.is_local,
        )

    def clean(self, text: str) -> str:
        """Return the text without the key, in case a server has sent it back."""
        return own_redactor({KEY: self.key or ""}).redact_text(text)

    async def chunks(self, body: bytes, model: str) -> AsyncGenerator[list[JsonObject]]:
        """Send a request, and yield the chunks of its answer, in lists as they came together.

        Raise ProviderFailure for every problem.
        """
        async with self._client.request("POST", body=body) as response:
            await self._check(response, model)
            if response.media_type == "application/json":
                yield [self._whole(await response.read_beginning(MAX_ANSWER_BYTES), model)]
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
                    # some servers leave the connection open after the end of the answer
                    response.patience.left = min(response.patience.left, FINISH_TIMEOUT)
                yield chunks
                if len(chunks) < len(together):
                    await response.drain()
                    return
        # Without [DONE]; the provider still accepts an answer that had a finish reason.
        if some:
            raise self.endpoint.cut_off()
        raise self.endpoint.garbage("a stream without events")

    def _whole(self, text: str, model: str) -> JsonObject:
        # the answer of a server that does not stream
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
        """Return the failure for an error inside a stream, mostly without a status."""
        message, code = read_error(json.dumps({"error": error}))
        status = None
        if isinstance(error, dict):
            status = error.get("code")
        if not isinstance(status, int) or status < 400:
            status = 500  # unknown, so it is retried
        return self.endpoint.refused(status, message, code=code, model=model)

    async def get(self, path: str) -> str:
        """Get a path beside that of conversations; raise ProviderFailure for every problem."""
        parts = urlsplit(self.url)
        url = parts._replace(path=parts.path.removesuffix(_PATH) + path).geturl()
        async with self._client.request("GET", url) as response:
            await self._check(response, "")
            return await response.read_beginning(MAX_ANSWER_BYTES)

    async def _check(self, response: HttpAnswer, model: str) -> None:
        """Raise ProviderFailure unless the answer is one of the API."""
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
    """The parts of a base URL, and its address as it can be shown."""

    url: str
    shown: str
    is_official: bool
    is_local: bool


def _read_address(base: str) -> _Address | None:
    """Return the parts of a base URL; None if it is not the address of a server."""
    try:
        parts = urlsplit(base)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return None
    if not usable or not base.isprintable() or " " in base:
        return None
    path = parts.path.rstrip("/").removesuffix(_PATH)
    url = parts._replace(path=path + _PATH, fragment="").geturl()
    netloc = parts.netloc.rpartition("@")[2]  # without user and password
    shown = parts._replace(netloc=netloc, path=path, query="", fragment="").geturl()
    host = parts.hostname or ""
    is_local = host in ("localhost", "::1") or host.startswith("127.")
    return _Address(url, shown, host == urlsplit(OFFICIAL).hostname, is_local)
