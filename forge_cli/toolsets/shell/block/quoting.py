"""Quoting as the generous scan undoes it: ANSI-C escapes, quoted special characters, brace expansion."""

from __future__ import annotations

import re

BRACE_LIMIT = 64
_BRACE_LENGTH = 256

_SPECIAL = "{},.*?[]~ \t\n"
_OFFSET = 0xE000
_PROTECT = {ord(char): chr(_OFFSET + ord(char)) for char in _SPECIAL}
_RESTORE = {_OFFSET + ord(char): char for char in _SPECIAL}

_ANSI = re.compile(
    r"\\(?:x\{([0-9A-Fa-f]+)\}?|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))",
    re.DOTALL,
)
_ANSI_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_KEEPS_BACKSLASH = re.compile(r"[^\\'\"?]")
_BRACE_MARK = re.compile(r"[{},]")
_SEQUENCE = re.compile(r"([A-Za-z]|-?\d{1,6})\.\.([A-Za-z]|-?\d{1,6})(?:\.\.-?\d+)?")


def protect(text: str) -> str:
    """Quoted text, with the characters that only mean something unquoted put out of the way."""
    return text.translate(_PROTECT)


def restore(text: str) -> str:
    """A word as bash would hand it over."""
    return text if text.isascii() else text.translate(_RESTORE)


def ansi_c(text: str) -> str:
    """The inside of ``$'...'``, decoded; bash drops what follows a NUL."""
    return ansi_characters(text).split("\0", 1)[0]


def ansi_characters(text: str) -> str:
    """All of it, also what follows a NUL."""
    return _ANSI.sub(_ansi_character, text)


def _ansi_character(escape: re.Match[str]) -> str:
    braced, short, four, eight, octal, control, other = escape.groups()
    if control is not None:
        return chr(ord(control) & 0x1F)
    if other is not None:
        keeps = "\\" if _KEEPS_BACKSLASH.match(other) else ""
        return _ANSI_LETTERS.get(other, keeps + other)
    if braced or octal:
        return chr((int(braced, 16) if braced else int(octal, 8)) & 0xFF)
    code = int(short or four or eight, 16)
    return chr(code) if code <= 0x10FFFF else ""


def expand_braces(word: str) -> list[str] | None:
    """The brace expansion of a word; None when it is more than ``BRACE_LIMIT`` words, or the word is long."""
    if "{" not in word:
        return [word]
    if len(word) > _BRACE_LENGTH:
        return None
    done: list[str] = []
    todo = [("", word)]
    while todo:
        prefix, rest = todo.pop()
        found = _first_braces(rest)
        if found is None:
            done.append(prefix + rest)
        else:
            start, end, choices = found
            todo.extend((prefix + rest[:start], choice + rest[end:]) for choice in reversed(choices))
        if len(done) + len(todo) > BRACE_LIMIT:
            return None
    return done


def _first_braces(text: str) -> tuple[int, int, list[str]] | None:
    """The leftmost braces that expand: where they open, where they end, and what they stand for."""
    opened: list[list[int]] = []
    first: tuple[int, int, list[str]] | None = None
    for mark in _BRACE_MARK.finditer(text):
        if mark[0] == "{":
            opened.append([mark.start()])
        elif not opened:
            continue
        elif mark[0] == ",":
            opened[-1].append(mark.start())
        else:
            cuts = opened.pop()
            if (first is None or cuts[0] < first[0]) and (choices := _choices(text, cuts, mark.start())):
                first = cuts[0], mark.end(), choices
            if first and not opened:
                break
    return first


def _choices(text: str, cuts: list[int], end: int) -> list[str]:
    """The alternatives of braces, given where they open and their commas are, and where they close."""
    if len(cuts) > 1:
        return [text[cut + 1 : after] for cut, after in zip(cuts, [*cuts[1:], end], strict=True)]
    sequence = _SEQUENCE.fullmatch(text, cuts[0] + 1, end)
    return _between(sequence[1], sequence[2]) if sequence else []


def _between(first: str, last: str) -> list[str]:
    """The members of a sequence, with those that its step leaves out; of many numbers, a glob that fits all."""
    if not (first.isalpha() and last.isalpha()):
        return [first, last, "[0-9]*"]
    low, high = sorted((ord(first), ord(last)))
    return [chr(code) for code in range(low, high + 1)]
