"""Calls that small models write as text: they are not made, and the user is warned."""

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
"""Keys of objects that are calls; an object with other keys is data."""
_NAMED = re.compile(r'"name"\s*:\s*"([a-zA-Z0-9_-]{1,64})"')
_ARGUMENTS = re.compile(r'"(?:arguments|parameters)"\s*:')
_MAX_LEAD = 300
"""The most characters before a call; a longer text is an answer that shows some JSON."""
MAX_LENGTH = 100_000
"""Characters of an answer that are searched."""


def written_call(text: str, offered: Collection[str]) -> str | None:
    """Return the tool that an answer calls in its text, as JSON or as ``name(...)``, or None."""
    text = text[:MAX_LENGTH]
    if not offered or not text.strip():
        return None
    bare = _TAGS.sub("\n", _FENCE.sub("\n", text)).strip()
    for value in _objects(bare):
        if name := _called_in(value):
            return name
    known = _NAMED.search(text)
    if known and known[1] in offered and _ARGUMENTS.search(text):
        return known[1]
    return _as_function(bare, offered)


def _objects(text: str) -> Iterator[Any]:
    """Yield the JSON values of a text that has at most a few words before them."""
    start = min((place for place in (text.find("{"), text.find("[")) if place >= 0), default=-1)
    decoder = json.JSONDecoder()
    lead = text[: max(start, 0)]
    if start < 0 or len(lead) > _MAX_LEAD:
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
    """Return the name in an object that is a call, or None."""
    if not isinstance(value, Mapping) or not value.keys() <= _BESIDE:
        return None
    inner = value.get("function")
    if isinstance(inner, Mapping):
        return _called_in(inner)
    called = [value[key] for key in _CALLED if isinstance(value.get(key), str)]
    given = [value[key] for key in _GIVEN if key in value]
    is_call = len(called) == 1 and len(given) == 1 and isinstance(given[0], dict | str)
    if is_call and _NAME.fullmatch(called[0]):
        return str(called[0])
    return None


def _as_function(text: str, offered: Collection[str]) -> str | None:
    """Return the tool that a text calls like a function, on its first line or a line of its own.

    An unknown name counts only if the call is all of the text, and the name looks like a tool's.
    """
    if alone := _ALONE.fullmatch(text.strip("` \n")):
        return alone[1]
    lines = [line.strip().strip("`") for line in text.split("\n")]
    for number, line in enumerate(lines):
        found = _AS_FUNCTION.match(line)
        if found and found[1] in offered and (number == 0 or line.rstrip(";").endswith(")")):
            return found[1]
    return None
