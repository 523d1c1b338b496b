"""Facts about Anthropic's models: names, context windows, and lengths of answers."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

from forge_cli.core.messages import ListedModel
from forge_cli.core.wire import JsonObject
from forge_cli.models.anthropic.transport import ADDRESS
from forge_cli.models.windows import listed_window

MILLION = 1_000_000
CLASSIC = 200_000
"""The context window of older models, in tokens."""
MAX_ANSWER = 32_000
MAX_UNKNOWN_ANSWER = 8_192
"""The limit for an unknown model; each family below allows the larger one. Thinking counts."""

_BUDGETS = {"low": 2_048, "medium": 8_192, "high": 16_384}
_WINDOWS = (
    (re.compile(r"claude-(fable|mythos)-"), MILLION),
    (re.compile(r"claude-(opus|sonnet|haiku)-([5-9]|\d\d)([-@:]|$)"), MILLION),
    (re.compile(r"claude-(opus|sonnet)-4-[6-9]([-@:]|$)"), MILLION),
    (re.compile(r"claude-(opus|sonnet|haiku)-4([-@:]|$)"), CLASSIC),
)


def context_window(model: str) -> int | None:
    """Return the context window of the model, or that of its family, in tokens."""
    family = next((window for family, window in _WINDOWS if family.search(model)), None)
    return listed_window("anthropic", model) or family


def max_tokens(model: str) -> int:
    """Return the maximum tokens of one answer."""
    if context_window(model) is None:
        return MAX_UNKNOWN_ANSWER
    return MAX_ANSWER


def thinking(model: str, level: str | None, longest: int) -> JsonObject:
    """Return the fields of a request that set how much a model thinks."""
    match level:
        case None:
            return {}
        case "off":
            return {"thinking": {"type": "disabled"}}
        case _ if context_window(model) == MILLION:
            return {"thinking": {"type": "adaptive"}, "output_config": {"effort": level}}
        case _:  # models with a small window take a number of tokens instead of a level
            # The API takes 1,024 or more; at least half of the answer is left for its text.
            budget = max(1024, min(_BUDGETS[level], longest // 2))
            return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def known_models() -> list[ListedModel]:
    """Return the known models with their context windows."""
    models: list[ListedModel] = []
    for name in known_names():
        window = context_window(name)
        guessed = window is not None and listed_window("anthropic", name) is None
        models.append(ListedModel(name, window, guessed=guessed))
    return models


def known_names() -> list[str]:
    """Return the models that the SDK names, newest first; none if the user set an address.

    The SDK's list is read as text, because importing the SDK takes seconds.
    """
    if os.environ.get(ADDRESS, "").strip():
        return []
    found = find_spec("anthropic")
    folders = found.submodule_search_locations if found else None
    if not folders:
        return []
    try:
        text = Path(folders[0], "types", "model.py").read_text("utf-8")
    except OSError:
        return []
    return list(dict.fromkeys(re.findall(r"""["'](claude-[a-z0-9.-]+)["']""", text)))
