"""Brace lists: ``a{b,c}`` is the words ``ab`` and ``ac``."""

from __future__ import annotations

from itertools import product

MAX_WORDS = 256
_MAX_DEPTH = 16


def expand_braces(word: str) -> list[str] | None:
    """Return the words of a brace list; None if any brace is no part of one, or for too many."""
    if not _is_balanced(word):
        return None
    words = _expanded(word)
    return words if words and all(words) else None


def _is_balanced(word: str) -> bool:
    depth = 0
    for char in word:
        if char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
        if not 0 <= depth <= _MAX_DEPTH:
            return False
    return depth == 0


def _expanded(word: str) -> list[str] | None:
    """Return the words of a list; None for braces without a comma, as ``{a}`` and ``{1..3}``."""
    start = word.find("{")
    if start < 0:
        return [word]
    items, end = _items(word, start)
    if len(items) < 2:
        return None
    middle: list[str] = []
    for item in items:
        inner = _expanded(item)
        if inner is None:
            return None
        middle += inner
    behind = _expanded(word[end + 1 :])
    if behind is None or len(middle) * len(behind) > MAX_WORDS:
        return None
    return [f"{word[:start]}{one}{other}" for one, other in product(middle, behind)]


def _items(word: str, start: int) -> tuple[list[str], int]:
    """Return the items between the brace at ``start`` and the closing one, and its place."""
    items: list[str] = []
    depth = 0
    begin = start + 1
    for at in range(start, len(word)):
        char = word[at]
        if char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
        if depth == 0 or (char == "," and depth == 1):
            items.append(word[begin:at])
            begin = at + 1
        if depth == 0:
            return items, at
    return [], len(word)
