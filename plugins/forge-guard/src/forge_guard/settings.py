"""Entries in JSON settings, added and removed as text, so that nothing else changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

EMPTY = "{}"
"""Settings without our entry that never had another; other programs end theirs with a newline."""
Span = tuple[int, int]
_decoder = json.JSONDecoder()


def with_entry(text: str, path: Sequence[str], entry: Any) -> str:
    """Add an entry to the list at ``path``; make the missing objects around it."""
    text = text if text.strip() else EMPTY
    found, node = json.loads(text), (_skip(text, 0), len(text.rstrip()))
    value: Any = [entry]
    for depth, key in enumerate(path):
        if key not in found:
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value}
            return _inserted(text, node, f"{json.dumps(key)}: ", value, depth)
        node = next(span for name, span, _ in _members(text, node[0]) if name == key)
        found = found[key]
    return _inserted(text, node, "", entry, len(path))


def without_entries(text: str, path: Sequence[str], ours: Callable[[Any], bool]) -> str:
    """Remove our entries at ``path``, and the list and objects that become empty."""
    while True:
        found: Any = json.loads(text) if text.strip() else {}
        for key in path:
            found = found.get(key, {}) if isinstance(found, dict) else {}
        if not isinstance(found, list):
            return text
        places = [place for place, each in enumerate(found) if ours(each)]
        if not places:
            return text
        text = _removed(text, path, places[-1], len(found))


def _removed(text: str, path: Sequence[str], place: int, count: int) -> str:
    keys: list[str | int] = [*path, place]
    while count == 1 and len(keys) > 1:  # what would be empty goes as a whole
        keys.pop()
        outer = json.loads(text)
        for key in keys[:-1]:
            outer = outer[key]
        count = len(outer)
    start = _skip(text, 0)
    for key in keys[:-1]:
        start = next(span for name, span, _ in _members(text, start) if name == key)[0]
    members = list(_members(text, start))
    at = next(number for number, (name, _, _) in enumerate(members) if name == keys[-1])
    (_, end), begin = members[at][1], members[at][2]
    if at > 0:
        return text[: members[at - 1][1][1]] + text[end:]
    if len(members) > 1:
        return text[:begin] + text[members[1][2] :]
    close = _skip(text, end)
    return text[: start + 1] + text[close:]


def _inserted(text: str, node: Span, key: str, value: Any, depth: int) -> str:
    """Return the text with a member added at the end of an object or a list."""
    unit = _indent(text)
    body = json.dumps(value, indent=unit, ensure_ascii=False).replace(
        "\n", "\n" + unit * (depth + 1)
    )
    new = f"\n{unit * (depth + 1)}{key}{body}"
    members = list(_members(text, node[0]))
    if members:
        end = members[-1][1][1]
        return f"{text[:end]},{new}{text[end:]}"
    return f"{text[: node[0] + 1]}{new}\n{unit * depth}{text[_skip(text, node[0] + 1) :]}"


def _members(text: str, start: int) -> Iterator[tuple[str | int, Span, int]]:
    """Yield key or index, span of the value and start of each member of an object or list."""
    in_object, place, number = text[start] == "{", _skip(text, start + 1), 0
    while text[place] not in "}]":
        begin, name = place, number
        if in_object:
            name, place = _decoder.raw_decode(text, place)
            place = _skip(text, _skip(text, place) + 1)
        _, end = _decoder.raw_decode(text, place)
        yield name, (place, end), begin
        place, number = _skip(text, end), number + 1
        if text[place] == ",":
            place = _skip(text, place + 1)


def _skip(text: str, place: int) -> int:
    """Return the position of the next character that is not white space."""
    while place < len(text) and text[place] in " \t\r\n":
        place += 1
    return place


def _indent(text: str) -> str:
    for line in text.splitlines():
        blank = line[: len(line) - len(line.lstrip(" \t"))]
        if blank and line.strip():
            return blank
    return "  "
