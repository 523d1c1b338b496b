"""openai:MODEL, every server that speaks Chat Completions: llama.cpp, vLLM, Ollama, LiteLLM, OpenAI itself."""

from __future__ import annotations

import os

from forge_cli.core.errors import ModelError
from forge_cli.core.hookspecs import hookimpl
from forge_cli.core.messages import ModelEnv, ModelFactory
from forge_cli.models.openai.forced import ForcedDialect
from forge_cli.models.openai.native import NativeDialect
from forge_cli.models.openai.provider import OpenAIModel
from forge_cli.models.openai.server import BASE_URL, KEY, OFFICIAL, Server, Timeouts

__all__ = ["OpenAIModel", "forge_models", "make"]


def make(name: str, env: ModelEnv) -> OpenAIModel:
    return OpenAIModel(
        name,
        server_of(f"openai:{name}", env.options.get("timeout")),
        ForcedDialect() if env.options.get("tools") == "schema" else NativeDialect(),
        env.notify,
        context_window=env.options.get("context"),
    )


def server_of(model: str, silence: float | None = None) -> Server:
    """The server that the environment names; a server of one's own needs no key."""
    base = os.environ.get(BASE_URL, "").strip()
    key = os.environ.get(KEY, "").strip()
    if not base and not key:
        hint = f"set it, or {BASE_URL} for a local server; other ways are -m anthropic:MODEL and -m script:FILE"
        raise ModelError(f"{KEY} is not set, and {model} needs it", hint=hint)
    return Server.at(base or OFFICIAL, key or None, Timeouts(read=silence) if silence else None)


def missing() -> str | None:
    try:
        server_of("openai:MODEL")
    except ModelError as error:
        return f"{error.message}; {error.hint}"
    return None


@hookimpl
def forge_models() -> list[ModelFactory]:
    return [ModelFactory("openai", make, needs=f"{KEY}, or {BASE_URL} for a local server", missing=missing)]
