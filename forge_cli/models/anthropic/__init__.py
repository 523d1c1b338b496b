"""``anthropic:MODEL``, the models of Anthropic."""

from __future__ import annotations

from forge_cli.core.hookspecs import hookimpl
from forge_cli.core.messages import ModelFactory
from forge_cli.models.anthropic.catalog import known_models, known_names
from forge_cli.models.anthropic.provider import AnthropicModel, make, missing
from forge_cli.models.anthropic.transport import KEY, TOKEN

__all__ = ["AnthropicModel", "forge_models", "make"]


@hookimpl
def forge_models() -> list[ModelFactory]:
    """Register the ``anthropic`` provider."""
    factory = ModelFactory(
        "anthropic",
        make,
        needs=KEY,
        missing=missing,
        keys=(KEY, TOKEN),
        catalog=known_models,
        names=known_names,
    )
    return [factory]
