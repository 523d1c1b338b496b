"""``openai:MODEL``, every Chat Completions server: llama.cpp, vLLM, Ollama, LiteLLM, OpenAI."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from forge_cli.core.errors import ModelError, WorkerError
from forge_cli.core.hookspecs import hookimpl
from forge_cli.core.messages import ListedModel, ModelEnv, ModelFactory
from forge_cli.core.wire import JsonObject
from forge_cli.files.keys import find_key
from forge_cli.models.http import Timeouts
from forge_cli.models.openai.dialects import ForcedDialect, NativeDialect
from forge_cli.models.openai.provider import OpenAIModel
from forge_cli.models.openai.server import (
    BASE_URL,
    KEY,
    OFFICIAL,
    WANTS_PROGRESS,
    Server,
    ask_server,
    known_models,
)
from forge_cli.models.windows import listed_window

__all__ = ["OpenAIModel", "forge_models", "make"]


def make(name: str, env: ModelEnv) -> OpenAIModel:
    """Create a model of the server that the environment names."""
    if env.options.get("transport") == "sdk":
        problem = f"models: openai:{name} has no other transport than http"
        raise WorkerError(None, problem, hint="remove `transport: sdk` from the config")
    official = not os.environ.get(BASE_URL, "").strip()
    dialect = NativeDialect()
    if env.options.get("tools") == "schema":
        dialect = ForcedDialect()
    # Many other servers refuse images, so they get them only if the config says so.
    dialect.images = env.options.get("images", official)
    server = server_of(f"openai:{name}", env.options.get("timeout"))
    window = env.options.get("context")
    if not window and official:
        window = listed_window("openai", name)
    progress = {WANTS_PROGRESS: True} if server.is_local else {}
    return OpenAIModel(
        name,
        server,
        dialect,
        env.notify,
        context_window=window,
        more={**progress, **_fields(env.options, official)},
    )


def _fields(options: Mapping[str, Any], official: bool) -> JsonObject:
    """Return the options of answers as fields of a request."""
    # OpenAI's newer models refuse ``max_tokens``, the only name that many other servers know.
    names = {
        "temperature": "temperature",
        "max_tokens": "max_completion_tokens" if official else "max_tokens",
        "thinking": "reasoning_effort",
    }
    fields: JsonObject = {}
    for name, field in names.items():
        if name in options:
            value = options[name]
            fields[field] = "none" if value == "off" else value
    return fields


def server_of(model: str, silence: float | None = None) -> Server:
    """Return the server that the environment names; a local server needs no key."""
    base = os.environ.get(BASE_URL, "").strip()
    key = find_key(KEY)
    if not base and not key:
        hint = (
            f"forge keys set openai stores one, {BASE_URL} names a local server; "
            "-m script:FILE needs no key"
        )
        raise ModelError(f"{KEY} is not set, and {model} needs it", hint=hint)
    timeouts = Timeouts(read=silence) if silence else None
    if key is None:
        return Server.at(base, None, timeouts)
    source = KEY if key.origin == "environment" else f"{key.origin} for {KEY}"
    return Server.at(base or OFFICIAL, key.value, timeouts, key_source=source)


def missing() -> str | None:
    """Return what is missing and how to get it; None if nothing is."""
    try:
        server_of("openai:MODEL")
    except ModelError as error:
        return f"{error.message}; {error.hint}"
    return None


async def ask() -> Sequence[ListedModel]:
    """Return the models of the user's own server; OpenAI's are in the catalog."""
    if not os.environ.get(BASE_URL, "").strip():
        return ()
    return await ask_server(server_of("openai:MODEL"))


@hookimpl
def forge_models() -> list[ModelFactory]:
    """Register the ``openai`` provider."""
    needs = f"{KEY}, or {BASE_URL} for a local server"
    return [
        ModelFactory(
            "openai", make, needs=needs, missing=missing, keys=(KEY,), catalog=known_models, ask=ask
        )
    ]
