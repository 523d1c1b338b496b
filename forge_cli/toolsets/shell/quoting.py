"""Quoting as the generous scan undoes it: ANSI-C escapes, quoted special characters, brace expansion."""

from __future__ import annotations

import re

BRACE_LIMIT = 64
_BRACE_LENGTH = 512

_SPECIAL = "{},.*?[]"
_OFFSET = 0xE000
_PROTECT = {ord(char): chr(_OFFSET + ord(char)) for char in _SPECIAL}
_RESTORE = {_OFFSET + ord(char): char for char in _SPECIAL}

_ANSI = re.compile(
    r"\\(?:x\{([0-9A-Fa-f]+)\}?|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))",
    re.DOTALL,
)
_ANSI_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_KEEPS_BACKSLASH = re.compile(r"[^\\'\"?]")
_SEQUENCE = re.compile(r"([A-Za-z]|-?\d{1,6})\.\.([A-Za-z]|-?\d{1,6})(?:\.\.-?\d+)?")


def protect(text: str) -> str:
    """Quoted text, with the characters that only mean something unquoted put out of the way."""
    return text.translate(_PROTECT)


def restore(text: str) -> str:
    """A word as bash would hand it over."""
    return text if text.isascii() else text.translate(_RESTORE)


def ansi_c(text: str) -> str:
    """The inside of ``$'...'``, decoded; bash drops what follows a NUL."""
    return _ANSI.sub(_ansi_character, text).split("\0", 1)[0]


def _ansi_character(escape: re.Match[str]) -> str:
    braced, short, four, eight, octal, control, other = escape.groups()
    if control is not None:
        return chr(ord(control) & 0x1F)
    if other is not None:
        keeps = "\\" if _KEEPS_BACKSLASH.match(other) else ""
        return _ANSI_LETTERS.get(other, keeps + other)
    code = int(octal, 8) & 0xFF if octal else int(braced or short or four or eight, 16)
    return chr(code & 0xFF if braced else code) if code <= 0x10FFFF else ""


def expand_braces(word: str) -> list[str]:
    """What brace expansion makes of a word, cut off after ``BRACE_LIMIT`` words."""
    if len(word) > _BRACE_LENGTH:
        return [word]
    done: list[str] = []
    todo = [("", word)]
    while todo and len(done) < BRACE_LIMIT:
        prefix, rest = todo.pop()
        found = _first_braces(rest)
        if found is None:
            done.append(prefix + rest)
            continue
        start, end, choices = found
        todo.extend((prefix + rest[:start], choice + rest[end:]) for choice in reversed(choices))
    return done


def _first_braces(text: str) -> tuple[int, int, list[str]] | None:
    for start, char in enumerate(text):
        if char == "{" and (found := _choices(text, start)):
            return found
    return None


def _choices(text: str, start: int) -> tuple[int, int, list[str]] | None:
    """The alternatives of the braces that open at ``start``, and where they close."""
    depth, cuts = 0, [start]
    for pos in range(start, len(text)):
        char = text[pos]
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 1:
            cuts.append(pos)
        if depth == 0:
            inside = text[start + 1 : pos]
            if len(cuts) > 1:
                ends = [*cuts[1:], pos]
                return start, pos + 1, [text[cut + 1 : end] for cut, end in zip(cuts, ends, strict=True)]
            if sequence := _SEQUENCE.fullmatch(inside):
                return start, pos + 1, [sequence[1], sequence[2]]
            return None
    return None
