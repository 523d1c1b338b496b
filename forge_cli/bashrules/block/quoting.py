"""Quotes, braces and globs as the tolerant scan reads them, and the words of bare text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

BRACE_LIMIT = 64
_MAX_BRACE_LENGTH = 256

# Characters that mean something only if they are not quoted. Quoted ones are moved to a private
# area of Unicode, so that later steps cannot mistake them.
_SPECIAL = "{},.*?[]~ \t\n"
_OFFSET = 0xE000
_PROTECT = {ord(char): chr(_OFFSET + ord(char)) for char in _SPECIAL}
_RESTORE = {_OFFSET + ord(char): char for char in _SPECIAL}

_ANSI = re.compile(
    r"\\(?:x\{([0-9A-Fa-f]+)\}?|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})"
    r"|([0-7]{1,3})|c(.)|(.))",
    re.DOTALL,
)
_ANSI_LETTERS = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_KEEPS_BACKSLASH = re.compile(r"[^\\'\"?]")
_BRACE_MARK = re.compile(r"[{},]")
_SEQUENCE = re.compile(r"([A-Za-z]|-?\d{1,6})\.\.([A-Za-z]|-?\d{1,6})(?:\.\.-?\d+)?")

_EXPANDS = re.compile(r"[*?]|\[.|(?:\A|[=:])~")
_PARTS = re.compile(
    r"(\*+)|(\?)|(\[[!^]?\]?(?:\[[:.=][^]]*\]|[^]])*\])|((?:(?<=[=:])|\A)~[^/]*)|(.)", re.DOTALL
)
_MAX_GLOB_LENGTH = 256
"""A longer glob counts as one that can be any word with its beginning."""

_JOINED_LINES = re.compile(r"\\\n")
ANSI_QUOTED = re.compile(r"\$'([^'\\]*(?:\\.[^'\\]*)*)'", re.DOTALL)
QUOTES = re.compile(r"[\"'\\]")
_BETWEEN_WORDS = re.compile(r"(?:\$\{\w+:?[-+?]|[\s;&|()<>{}`$=,!*?\[\]])+")
_BETWEEN_EXPANDING = re.compile(r"[\s;&|()<>`=!]+")
_SUBSTITUTION = re.compile(r"\$\([^()]*\)|`[^`]*`")
_MAY_EXPAND = re.compile(r"[*?\[{$]")
_ADDS_LETTERS = re.compile(r"[*?\[]|\.\.")


def protect(text: str) -> str:
    """Return quoted text with its special characters moved out of the way."""
    return text.translate(_PROTECT)


def restore(text: str) -> str:
    """Return a word as bash would pass it to a program."""
    if text.isascii():  # the private area is not in ASCII
        return text
    return text.translate(_RESTORE)


def ansi_c(text: str) -> str:
    """Decode the inside of ``$'...'`` as bash does, which drops everything after a NUL."""
    return ansi_characters(text).split("\0", 1)[0]


def ansi_characters(text: str) -> str:
    """Decode all escapes, also those after a NUL."""
    return _ANSI.sub(_ansi_character, text)


def _ansi_character(escape: re.Match[str]) -> str:
    braced, short, four, eight, octal, control, other = escape.groups()
    if control is not None:
        return chr(ord(control) & 0x1F)
    if other is not None:
        keeps = "\\" if _KEEPS_BACKSLASH.match(other) else ""
        return _ANSI_LETTERS.get(other, keeps + other)
    if braced:
        return chr(int(braced, 16) & 0xFF)
    if octal:
        return chr(int(octal, 8) & 0xFF)
    code = int(short or four or eight, 16)
    return chr(code) if code <= 0x10FFFF else ""


def expand_braces(word: str) -> list[str] | None:
    """Return the words of a brace expansion; None if they exceed ``BRACE_LIMIT``."""
    if "{" not in word:
        return [word]
    if len(word) > _MAX_BRACE_LENGTH:
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
            todo.extend(
                (prefix + rest[:start], choice + rest[end:]) for choice in reversed(choices)
            )
        if len(done) + len(todo) > BRACE_LIMIT:
            return None
    return done


def _first_braces(text: str) -> tuple[int, int, list[str]] | None:
    """Return the leftmost braces that expand: their start, their end and their choices."""
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
            is_first = first is None or cuts[0] < first[0]
            if is_first and (choices := _choices(text, cuts, mark.start())):
                first = cuts[0], mark.end(), choices
            if first and not opened:
                break
    return first


def _choices(text: str, cuts: list[int], end: int) -> list[str]:
    """Return the alternatives in braces; ``cuts`` are the places of the opening and the commas."""
    if len(cuts) > 1:
        return [text[cut + 1 : after] for cut, after in zip(cuts, [*cuts[1:], end], strict=True)]
    sequence = _SEQUENCE.fullmatch(text, cuts[0] + 1, end)
    return _between(sequence[1], sequence[2]) if sequence else []


def _between(first: str, last: str) -> list[str]:
    """Return the members of a sequence without its step; of numbers, a glob that fits them all."""
    if not (first.isalpha() and last.isalpha()):
        return [first, last, "[0-9]*"]
    low, high = sorted((ord(first), ord(last)))
    return [chr(code) for code in range(low, high + 1)]


def is_glob(word: str) -> bool:
    """Return True if bash would expand the word to names of files or a home directory."""
    return _EXPANDS.search(word) is not None


def could_be(word: str, token: str) -> bool:
    """Return True if a word is this token, case aside, or can expand to it."""
    expands = _EXPANDS.search(word)
    if expands is None:
        return restore(word).casefold() == token
    start = restore(word[: expands.start()]).casefold()
    if not token.startswith(start):
        return False
    return len(word) > _MAX_GLOB_LENGTH or _fits(_parts(word), token)


@lru_cache(maxsize=256)
def _parts(word: str) -> tuple[str | re.Pattern[str], ...]:
    """Return the parts of a glob: ``*``, ``**`` if it fits slashes, or a pattern of one letter."""
    parts: list[str | re.Pattern[str]] = []
    for stars, one, bracket, tilde, char in _PARTS.findall(word):
        if stars:
            parts.append("*")
        elif bracket:
            parts.append(_bracket(bracket))
        elif one:
            parts.append(_ANY)
        elif tilde:  # a home directory: an absolute path of unknown length
            parts += [re.compile("/"), "**"]
        else:
            parts.append(re.compile(re.escape(restore(char)), re.IGNORECASE))
    return tuple(parts)


_ANY = re.compile(r"[^/]")


def _bracket(text: str) -> re.Pattern[str]:
    """Return a pattern for a bracket expression; one that is not plain fits any character."""
    inside = text[1:-1]
    negated = text[1:2] in ("!", "^")
    if "[" in inside or "\\" in inside:
        return _ANY
    if negated:
        inside = inside[1:]
    inside = inside.replace("]", "\\]").replace("^", "\\^").replace("&", "\\&")
    try:
        return re.compile(f"[{'^' if negated else ''}{restore(inside)}]", re.IGNORECASE)
    except re.error:
        return _ANY


def _fits(parts: tuple[str | re.Pattern[str], ...], token: str) -> bool:
    """Return True if the token fits the parts of a glob.

    A star takes as few characters as it can, and one more whenever the rest does not fit.
    """
    part = 0
    at = 0
    star = -1
    resume = 0
    while at < len(token):
        wanted = parts[part] if part < len(parts) else None
        if isinstance(wanted, str):
            star = part
            resume = at
            part += 1
        elif isinstance(wanted, re.Pattern) and wanted.match(token[at]):
            part += 1
            at += 1
        elif star >= 0 and (parts[star] == "**" or token[resume] != "/"):
            part = star + 1
            resume += 1
            at = resume
        else:
            return False
    return all(isinstance(rest, str) for rest in parts[part:])


def bare_words(text: str) -> Iterator[list[str]]:
    """Yield the words of a text in several readings: quotes removed, quotes as gaps, ``=`` kept."""
    decoded = _decoded(text)
    joined = QUOTES.sub("", decoded)
    yield _split(_BETWEEN_WORDS, joined)
    if joined != decoded:
        yield _split(_BETWEEN_WORDS, QUOTES.sub(" ", decoded))
    if "=" in joined:
        yield _split(_BETWEEN_WORDS, joined.replace("=", "_"))


def expanding_words(text: str) -> list[str]:
    """Return the words of a text, with expansions left in them."""
    text = _SUBSTITUTION.sub("$", QUOTES.sub("", _decoded(text)))
    return _split(_BETWEEN_EXPANDING, text)


def _split(between: re.Pattern[str], text: str) -> list[str]:
    return [word for word in between.split(text) if word]


def expands(word: str) -> bool:
    """Return True if the word may become other words."""
    return _MAY_EXPAND.search(word) is not None


def may_become(word: str, name: str) -> bool:
    """Return True if a word is this name or can expand to it; a mere ``*`` counts as file names."""
    first = _MAY_EXPAND.search(word)
    if first is None:
        return word == name
    end = "" if "$" in word else word[max(map(word.rfind, "*?]}")) + 1 :]
    if not name.startswith(word[: first.start()]) or not name.endswith(end):
        return False
    if _ADDS_LETTERS.search(word):
        # a glob or a sequence adds letters, so that one letter in common is enough
        return not set(name).isdisjoint(word)
    letters = iter(word)
    return all(letter in letters for letter in name)


def _decoded(text: str) -> str:
    """Return the text with ``$'...'`` decoded, NUL as a blank.

    It is unknown whether a quote really opens there, so the text after a NUL is kept.
    """
    joined = _JOINED_LINES.sub("", text)
    return ANSI_QUOTED.sub(lambda quoted: ansi_characters(quoted[1]).replace("\0", " "), joined)
