"""Brace lists: ``a{b,c}`` is the words ``ab`` and ``ac``."""

from __future__ import annotations

from itertools import product

WORDS_AT_MOST = 256
_DEPTH_AT_MOST = 16


def expand_braces(word: str) -> list[str] | None:
    """The words that bash makes of one in which every brace is part of a list; None for any other, or too many."""
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
        if not 0 <= depth <= _DEPTH_AT_MOST:
            return False
    return depth == 0


def _expanded(word: str) -> list[str] | None:
    """The words of a list, the leftmost one outside; None where braces hold no comma, as in ``{a}`` and ``{1..3}``."""
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
    if behind is None or len(middle) * len(behind) > WORDS_AT_MOST:
        return None
    return [f"{word[:start]}{one}{other}" for one, other in product(middle, behind)]


def _items(word: str, start: int) -> tuple[list[str], int]:
    """The items between the brace at ``start`` and the one that closes it, and the place of that."""
    items, depth, begin = list[str](), 0, start + 1
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
