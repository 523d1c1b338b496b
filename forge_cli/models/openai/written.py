"""Calls that a model has written as text, as small ones do: they are not made, and the person has to know."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

_NAME = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_FENCE = re.compile(r"^\s*```[\w+-]*[ \t]*\n|\n\s*```\s*$")
_TAGS = re.compile(
    r"</?(?:tool_calls?|tools?|function_calls?|functions?|invoke)>|<\|[\w ]+\|>|\[/?TOOL_CALLS?\]",
    re.I,
)
_AS_FUNCTION = re.compile(r"(?:print\()?(?:[\w]+\.){0,3}([a-zA-Z0-9_-]{1,64})\(")
_ALONE = re.compile(r"(?:\w+\.){0,3}([a-z0-9]+(?:_[a-z0-9]+)+)\([^\n]*\);?")
_CALLED = ("name", "tool", "tool_name", "function", "action")
_GIVEN = ("arguments", "parameters", "args", "input", "action_input")
_BESIDE = frozenset(
    {
        *_CALLED,
        *_GIVEN,
        "id",
        "type",
        "tool_call_id",
        "thought",
        "description",
        "reason",
        "explanation",
    }
)
"""Keys of objects that are meant as calls: what has others is data."""
_NAMED = re.compile(r'"name"\s*:\s*"([a-zA-Z0-9_-]{1,64})"')
_ARGUMENTS = re.compile(r'"(?:arguments|parameters)"\s*:')
LONGEST = 100_000
"""Characters of an answer that are looked at."""


def written_call(text: str, offered: Collection[str]) -> str | None:
    """The tool that an answer calls by its words: in JSON, whatever its name is, or as ``name(...)``."""
    text = text[:LONGEST]
    if not offered or not text.strip():
        return None
    bare = _TAGS.sub("\n", _FENCE.sub("\n", text)).strip()
    named = next((name for name in map(_called_in, _objects(bare)) if name), None)
    if named:
        return named
    known = _NAMED.search(text)
    if known and known[1] in offered and _ARGUMENTS.search(text):
        return known[1]
    return _as_function(bare, offered)


def _objects(text: str) -> Iterator[Any]:
    """The JSON of a text that is nothing else, but for a few words before it."""
    start = min((place for place in (text.find("{"), text.find("[")) if place >= 0), default=-1)
    decoder = json.JSONDecoder()
    lead = text[: max(start, 0)]
    if start < 0 or len(lead) > 300:
        return
    rest = text[start:]
    while rest[:1] in ("{", "["):
        try:
            found, end = decoder.raw_decode(rest)
        except (ValueError, RecursionError):
            return
        yield from found if isinstance(found, list) else [found]
        rest = rest[end:].lstrip(" \t\r\n,;`")


def _called_in(value: Any) -> str | None:
    """The name in an object that is meant as a call."""
    if not isinstance(value, Mapping) or not value.keys() <= _BESIDE:
        return None
    inner = value.get("function")
    if isinstance(inner, Mapping):
        return _called_in(inner)
    called = [value[key] for key in _CALLED if isinstance(value.get(key), str)]
    given = [value[key] for key in _GIVEN if key in value]
    is_call = len(called) == 1 and len(given) == 1 and isinstance(given[0], dict | str)
    return called[0] if is_call and _NAME.fullmatch(called[0]) else None


def _as_function(text: str, offered: Collection[str]) -> str | None:
    """A call as a program would write it: at the beginning, or as a line of its own.

    With another name it counts where the answer is nothing else, and the name looks like that of a tool.
    """
    if alone := _ALONE.fullmatch(text.strip("` \n")):
        return alone[1]
    lines = [line.strip().strip("`") for line in text.split("\n")]
    for number, line in enumerate(lines):
        found = _AS_FUNCTION.match(line)
        if found and found[1] in offered and (number == 0 or line.rstrip(";").endswith(")")):
            return found[1]
    return None
