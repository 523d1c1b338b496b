"""The args of a call as people read them: short ones on a line, commands and patches as they were written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forge_cli.core.results import Diff, ResultValue
from forge_cli.core.wire import jsonable

LONG = 100
"""Characters of a text that has a block of its own."""
PATCHES = ("*** Begin Patch", "diff --git ", "--- ")


@dataclass(frozen=True)
class ArgumentBlock:
    """A long arg, and the language that it is written in."""

    name: str
    text: str
    language: str


def split_args(args: Any, result: ResultValue | None = None) -> tuple[dict[str, str], list[ArgumentBlock]]:
    """The short args, as JSON by name, and the blocks; what is not given and what the result shows is left out."""
    if not isinstance(args, Mapping):
        return {"args": _json(args)}, []
    written = result.modified if isinstance(result, Diff) else None
    short: dict[str, str] = {}
    blocks: list[ArgumentBlock] = []
    for name, value in args.items():
        if isinstance(value, str) and (name == "command" or "\n" in value or len(value) > LONG):
            if value != written:
                blocks.append(ArgumentBlock(str(name), value, _language(str(name), value)))
        elif value is not None:
            short[str(name)] = _json(value)
    return short, blocks


def _language(name: str, text: str) -> str:
    if text.lstrip().startswith(PATCHES):
        return "diff"
    return "sh" if name == "command" else "text"


def _json(value: Any) -> str:
    return json.dumps(jsonable(value), ensure_ascii=False)
