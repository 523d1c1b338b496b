"""Entries in JSON settings, added and removed as text, so that nothing else changes.

Comments, line ends and the order of keys stay. A list or object that was empty before gets its
entry on the same line, so that a removal can tell it from one that the installation made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

EMPTY = "{}"
"""Settings without our entry that never had another; other programs end theirs with a newline."""
Span = tuple[int, int]
_decoder = json.JSONDecoder()
_NO_CODE = re.compile(r'("(?:\\.|[^"\\])*")|//[^\r\n]*|/\*.*?\*/|\ufeff', re.DOTALL)
"""Strings, which stay, and comments and byte order marks, which are blank for a reader."""


def read_settings(text: str) -> Any:
    """Return the value of settings, which may have comments; an empty object for an empty text."""
    text = _blanked(text)
    return json.loads(text) if text.strip() else {}


def with_entry(text: str, path: Sequence[str], entry: Any) -> str:
    """Add an entry to the list at ``path``; make the missing objects around it."""
    is_new = not text.strip("\ufeff \t\r\n")
    text = f"{text}{EMPTY}" if is_new else text
    plain = _blanked(text)
    found, node = json.loads(plain), _skip(plain, 0)
    value: Any = [entry]
    for depth, key in enumerate(path):
        if key not in found:
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value}
            key = f"{json.dumps(key)}: "
            return _inserted(text, node, key, value, depth, is_new=is_new)
        node = _span_of(plain, node, key)[0]
        found = found[key]
    return _inserted(text, node, "", entry, len(path))


def without_entries(text: str, path: Sequence[str], ours: Callable[[Any], bool]) -> str:
    """Remove our entries at ``path``, and the list and objects that were made for them."""
    while True:
        found: Any = read_settings(text)
        for key in path:
            found = found.get(key, {}) if isinstance(found, dict) else {}
        if not isinstance(found, list):
            return text
        places = [place for place, each in enumerate(found) if ours(each)]
        if not places:
            return text
        text = _removed(text, path, places[-1])


def had_settings(text: str) -> bool:
    """Return True if settings with our entry were an empty object before."""
    plain = _blanked(text).strip()
    return plain.startswith("{") and not plain[1:].startswith(("\n", "\r")) and "\n" in plain


def _removed(text: str, path: Sequence[str], place: int) -> str:
    plain = _blanked(text)
    keys: list[str | int] = [*path, place]
    while True:
        start = _skip(plain, 0)
        for key in keys[:-1]:
            start = _span_of(plain, start, key)[0]
        members = list(_members(plain, start))
        first = plain[slice(*members[0][1])]
        was_empty = plain[start + 1] not in "\r\n" and "\n" in first
        if len(members) > 1 or len(keys) == 1 or was_empty:
            break
        keys.pop()  # what was made for the entry goes as a whole
    at = max(number for number, (name, _, _) in enumerate(members) if name == keys[-1])
    (_, end), begin = members[at][1], members[at][2]
    if at > 0:
        return text[: members[at - 1][1][1]] + text[end:]
    if len(members) > 1:
        return text[:begin] + text[members[1][2] :]
    close = end
    if not was_empty:
        close = _skip(plain, end)
    return text[: start + 1] + text[close:]


def _inserted(
    text: str, start: int, key: str, value: Any, depth: int, *, is_new: bool = False
) -> str:
    """Return the text with a member added at the end of the object or list at ``start``."""
    members = list(_members(_blanked(text), start))
    unit = _indent(text)
    end_of_line = "\r\n" if "\r\n" in text else "\n"
    inner = f"{end_of_line}{unit * (depth + 1)}"
    body = json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", inner)
    if members:
        end = members[-1][1][1]
        return f"{text[:end]},{inner}{key}{body}{text[end:]}"
    if not is_new:
        return f"{text[: start + 1]}{key}{body}{text[start + 1 :]}"
    return f"{text[: start + 1]}{inner}{key}{body}{end_of_line}{unit * depth}{text[start + 1 :]}"


def _span_of(plain: str, start: int, key: str | int) -> Span:
    """Return the span of a member; of several with one key the last, which counts."""
    return [span for name, span, _ in _members(plain, start) if name == key][-1]


def _members(plain: str, start: int) -> Iterator[tuple[str | int, Span, int]]:
    """Yield key or index, span of the value and start of each member of an object or list."""
    in_object, place, number = plain[start] == "{", _skip(plain, start + 1), 0
    while plain[place] not in "}]":
        begin, name = place, number
        if in_object:
            name, place = _decoder.raw_decode(plain, place)
            place = _skip(plain, _skip(plain, place) + 1)
        _, end = _decoder.raw_decode(plain, place)
        yield name, (place, end), begin
        place, number = _skip(plain, end), number + 1
        if plain[place] == ",":
            place = _skip(plain, place + 1)


def _blanked(text: str) -> str:
    """Return settings of the same length with blanks in place of comments."""
    return _NO_CODE.sub(lambda found: found[1] or re.sub(r"[^\r\n]", " ", found[0]), text)


def _skip(plain: str, place: int) -> int:
    """Return the position of the next character that is not white space."""
    while place < len(plain) and plain[place] in " \t\r\n":
        place += 1
    return place


def _indent(text: str) -> str:
    for line in text.splitlines():
        blank = line[: len(line) - len(line.lstrip(" \t"))]
        if blank and line.strip() and not line.lstrip().startswith(("//", "/*", "*")):
            return blank
    return "  "
