"""Facts about the models: their names, their windows, and how long an answer may get."""

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
ANSWER = 32_000
CAUTIOUS_ANSWER = 8_192
"""Thinking counts as part of the answer; every family below allows the larger one, a stranger may not."""

_BUDGETS = {"low": 2_048, "medium": 8_192, "high": 16_384}
_WINDOWS = (
    (re.compile(r"claude-(fable|mythos)-"), MILLION),
    (re.compile(r"claude-(opus|sonnet|haiku)-([5-9]|\d\d)([-@:]|$)"), MILLION),
    (re.compile(r"claude-(opus|sonnet)-4-[6-9]([-@:]|$)"), MILLION),
    (re.compile(r"claude-(opus|sonnet|haiku)-4([-@:]|$)"), CLASSIC),
)


def context_window(model: str) -> int | None:
    """How many tokens the model can hold in mind; of one that is not in the table, as its family; else None."""
    family = next((window for family, window in _WINDOWS if family.search(model)), None)
    return listed_window("anthropic", model) or family


def max_tokens(model: str) -> int:
    """How long one answer may get before it is cut off."""
    return CAUTIOUS_ANSWER if context_window(model) is None else ANSWER


def thinking(model: str, level: str | None, longest: int) -> JsonObject:
    """The fields of a request that say how much a model thinks; those with a small window count it in tokens."""
    match level:
        case None:
            return {}
        case "off":
            return {"thinking": {"type": "disabled"}}
        case _ if context_window(model) == MILLION:
            return {"thinking": {"type": "adaptive"}, "output_config": {"effort": level}}
        case _:
            return {
                "thinking": {
                    "type": "enabled",
                    "budget_tokens": max(1024, min(_BUDGETS[level], longest // 2)),
                }
            }


def known_models() -> list[ListedModel]:
    """Those of the names, with their windows."""
    windows = {name: context_window(name) for name in known_names()}
    return [
        ListedModel(
            name, window, guessed=window is not None and listed_window("anthropic", name) is None
        )
        for name, window in windows.items()
    ]


def known_names() -> list[str]:
    """The models that the SDK names, newest first; behind an address of the user's there may be any other.

    Its list is read as text: to import the SDK takes seconds.
    """
    found = None if os.environ.get(ADDRESS, "").strip() else find_spec("anthropic")
    folders = found.submodule_search_locations if found else None
    try:
        text = Path(folders[0], "types", "model.py").read_text("utf-8") if folders else ""
    except OSError:
        text = ""
    return list(dict.fromkeys(re.findall(r"""["'](claude-[a-z0-9.-]+)["']""", text)))
