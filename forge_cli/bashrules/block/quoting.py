"""Quoting as the generous scan undoes it, words of bare text, and whether a word could become another one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

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
_LONGEST = 256
"""A longer glob is taken for one that could be anything."""

_JOINED_LINES = re.compile(r"\\\n")
ANSI_QUOTED = re.compile(r"\$'([^'\\]*(?:\\.[^'\\]*)*)'", re.DOTALL)
QUOTES = re.compile(r"[\"'\\]")
_BETWEEN_WORDS = re.compile(r"(?:\$\{\w+:?[-+?]|[\s;&|()<>{}`$=,!*?\[\]])+")
_BETWEEN_EXPANDING = re.compile(r"[\s;&|()<>`=!]+")
_SUBSTITUTION = re.compile(r"\$\([^()]*\)|`[^`]*`")
_MAY_EXPAND = re.compile(r"[*?\[{$]")
_ADDS_LETTERS = re.compile(r"[*?\[]|\.\.")


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
            todo.extend(
                (prefix + rest[:start], choice + rest[end:]) for choice in reversed(choices)
            )
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
            if (first is None or cuts[0] < first[0]) and (
                choices := _choices(text, cuts, mark.start())
            ):
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


def is_glob(word: str) -> bool:
    return _EXPANDS.search(word) is not None


def could_be(word: str, token: str) -> bool:
    """Whether a word, case aside, is this token, or can become it once it is expanded."""
    expands = _EXPANDS.search(word)
    if expands is None:
        return restore(word).casefold() == token
    start = restore(word[: expands.start()]).casefold()
    return token.startswith(start) and (len(word) > _LONGEST or _fits(_parts(word), token))


@lru_cache(maxsize=256)
def _parts(word: str) -> tuple[str | re.Pattern[str], ...]:
    """A star, two stars where a slash is not an end, or a pattern for one character."""
    parts: list[str | re.Pattern[str]] = []
    for stars, one, bracket, tilde, char in _PARTS.findall(word):
        if stars:
            parts.append("*")
        elif one or bracket:
            parts.append(_bracket(bracket) if bracket else _ANY)
        elif tilde:
            parts += [re.compile("/"), "**"]
        else:
            parts.append(re.compile(re.escape(restore(char)), re.IGNORECASE))
    return tuple(parts)


_ANY = re.compile(r"[^/]")


def _bracket(text: str) -> re.Pattern[str]:
    """One character of a set; a set that is not plain is taken for any."""
    inside, negated = text[1:-1], text[1:2] in ("!", "^")
    if "[" in inside or "\\" in inside:
        return _ANY
    inside = (
        (inside[1:] if negated else inside)
        .replace("]", "\\]")
        .replace("^", "\\^")
        .replace("&", "\\&")
    )
    try:
        return re.compile(f"[{'^' if negated else ''}{restore(inside)}]", re.IGNORECASE)
    except re.error:
        return _ANY


def _fits(parts: tuple[str | re.Pattern[str], ...], token: str) -> bool:
    """The usual walk: a star takes as little as it can, and one character more whenever the rest does not fit."""
    part, at, star, resume = 0, 0, -1, 0
    while at < len(token):
        wanted = parts[part] if part < len(parts) else None
        if isinstance(wanted, str):
            star, resume, part = part, at, part + 1
        elif isinstance(wanted, re.Pattern) and wanted.match(token[at]):
            part, at = part + 1, at + 1
        elif star >= 0 and (parts[star] == "**" or token[resume] != "/"):
            part, resume = star + 1, resume + 1
            at = resume
        else:
            return False
    return all(isinstance(rest, str) for rest in parts[part:])


def bare_words(text: str) -> Iterator[list[str]]:
    """The words of a text, with its quotes taken out or a gap where they were, split at ``=`` or not."""
    decoded = _decoded(text)
    joined = QUOTES.sub("", decoded)
    yield _split(_BETWEEN_WORDS, joined)
    if joined != decoded:
        yield _split(_BETWEEN_WORDS, QUOTES.sub(" ", decoded))
    if "=" in joined:
        yield _split(_BETWEEN_WORDS, joined.replace("=", "_"))


def expanding_words(text: str) -> list[str]:
    """The words of a text with what the shell would expand left in them."""
    text = _SUBSTITUTION.sub("$", QUOTES.sub("", _decoded(text)))
    return _split(_BETWEEN_EXPANDING, text)


def _split(between: re.Pattern[str], text: str) -> list[str]:
    return [word for word in between.split(text) if word]


def expands(word: str) -> bool:
    return _MAY_EXPAND.search(word) is not None


def may_become(word: str, name: str) -> bool:
    """Whether a word is this name, or could be once it is expanded; a mere ``*`` is taken for names of files."""
    first = _MAY_EXPAND.search(word)
    if first is None:
        return word == name
    end = "" if "$" in word else word[max(map(word.rfind, "*?]}")) + 1 :]
    if not name.startswith(word[: first.start()]) or not name.endswith(end):
        return False
    if _ADDS_LETTERS.search(word):
        return not set(name).isdisjoint(word)
    letters = iter(word)
    return all(letter in letters for letter in name)


def _decoded(text: str) -> str:
    """The text with ``$'...'`` decoded; whether a quote opens there is not known, so what follows a NUL is kept."""
    joined = _JOINED_LINES.sub("", text)
    return ANSI_QUOTED.sub(lambda quoted: ansi_characters(quoted[1]).replace("\0", " "), joined)
