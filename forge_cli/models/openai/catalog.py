"""The list of models: those that OpenAI is known to have, or those that the server at the user's address lists."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from typing import Any

import anyio

from forge_cli.core.errors import ModelError
from forge_cli.core.messages import ListedModel
from forge_cli.models.failures import ProviderFailure
from forge_cli.models.openai.server import BASE_URL, Server

PATIENCE = 3.0
"""Seconds that a server has to say which models it has."""
_CHAT = re.compile(r"(gpt-\d|o\d)(?!.*(audio|realtime|transcribe|search|image|tts|research|instruct|vision|-\d{4}))")


def known_models() -> list[ListedModel]:
    """OpenAI's models for conversations, by the table of genai-prices; another server may have any other."""
    if os.environ.get(BASE_URL, "").strip():
        return []
    from genai_prices.data import providers

    own = next(provider for provider in providers if provider.id == "openai")
    return [ListedModel(each.id, each.context_window) for each in own.models if each.context_window and _is_chat(each)]


def _is_chat(model: Any) -> bool:
    return _CHAT.match(model.id) is not None


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
    return [ListedModel(name, _window(item)) for item in models if isinstance(name := item.get("id"), str) and name]


def _window(item: dict[str, Any]) -> int | None:
    meta = item.get("meta")
    places = (item, meta if isinstance(meta, dict) else {})
    values = (place.get(key) for place in places for key in ("max_model_len", "context_length", "n_ctx", "n_ctx_train"))
    return next((value for value in values if type(value) is int and value > 0), None)
