"""openai:MODEL, every server that speaks Chat Completions: llama.cpp, vLLM, Ollama, LiteLLM, OpenAI itself."""

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
    if env.options.get("transport") == "sdk":
        problem = f"models: openai:{name} has no other transport than http"
        raise WorkerError(None, problem, hint="take `transport: sdk` out of the config")
    official = not os.environ.get(BASE_URL, "").strip()
    dialect = ForcedDialect() if env.options.get("tools") == "schema" else NativeDialect()
    dialect.images = env.options.get("images", official)
    server = server_of(f"openai:{name}", env.options.get("timeout"))
    progress = {WANTS_PROGRESS: True} if server.is_local else {}
    return OpenAIModel(
        name,
        server,
        dialect,
        env.notify,
        context_window=env.options.get("context")
        or (listed_window("openai", name) if official else None),
        more={**progress, **_fields(env.options, official)},
    )


def _fields(options: Mapping[str, Any], official: bool) -> JsonObject:
    """The config of answers, as fields of a request; only OpenAI's own server has another name for one."""
    names = {
        "temperature": "temperature",
        "max_tokens": "max_completion_tokens" if official else "max_tokens",
        "thinking": "reasoning_effort",
    }
    found = {field: options[name] for name, field in names.items() if name in options}
    return {field: "none" if value == "off" else value for field, value in found.items()}


def server_of(model: str, silence: float | None = None) -> Server:
    """The server that the environment names; a local server needs no key."""
    base = os.environ.get(BASE_URL, "").strip()
    key = find_key(KEY)
    if not base and not key:
        hint = f"forge keys set openai stores one, {BASE_URL} names a local server; -m script:FILE needs no key"
        raise ModelError(f"{KEY} is not set, and {model} needs it", hint=hint)
    timeouts = Timeouts(read=silence) if silence else None
    if key is None:
        return Server.at(base, None, timeouts)
    source = KEY if key.origin == "environment" else f"{key.origin} for {KEY}"
    return Server.at(base or OFFICIAL, key.value, timeouts, key_source=source)


def missing() -> str | None:
    try:
        server_of("openai:MODEL")
    except ModelError as error:
        return f"{error.message}; {error.hint}"
    return None


async def ask() -> Sequence[ListedModel]:
    """The models of a server of the user's own; OpenAI's are in the catalogue."""
    return (
        await ask_server(server_of("openai:MODEL")) if os.environ.get(BASE_URL, "").strip() else ()
    )


@hookimpl
def forge_models() -> list[ModelFactory]:
    needs = f"{KEY}, or {BASE_URL} for a local server"
    return [
        ModelFactory(
            "openai", make, needs=needs, missing=missing, keys=(KEY,), catalog=known_models, ask=ask
        )
    ]
