"""The bare text of a line: words without any structure, for where the structure is in doubt or too much to read."""

from __future__ import annotations

import re
from collections.abc import Iterator

from forge_cli.toolsets.shell.block.quoting import ansi_characters

_JOINED_LINES = re.compile(r"\\\n")
_ANSI_QUOTED = re.compile(r"\$'([^'\\]*(?:\\.[^'\\]*)*)'", re.DOTALL)
_QUOTES = re.compile(r"[\"'\\]")
_BETWEEN_WORDS = re.compile(r"(?:\$\{\w+:?[-+?]|[\s;&|()<>{}`$=,!*?\[\]])+")
_BETWEEN_EXPANDING = re.compile(r"[\s;&|()<>`=!]+")
_SUBSTITUTION = re.compile(r"\$\([^()]*\)|`[^`]*`")
_EXPANDS = re.compile(r"[*?\[{$]")
_ADDS_LETTERS = re.compile(r"[*?\[]|\.\.")


def bare_words(text: str) -> Iterator[list[str]]:
    """The words of a text, with its quotes taken out or a gap where they were, split at ``=`` or not."""
    decoded = _decoded(text)
    joined = _QUOTES.sub("", decoded)
    yield _split(_BETWEEN_WORDS, joined)
    if joined != decoded:
        yield _split(_BETWEEN_WORDS, _QUOTES.sub(" ", decoded))
    if "=" in joined:
        yield _split(_BETWEEN_WORDS, joined.replace("=", "_"))


def expanding_words(text: str) -> list[str]:
    """The words of a text with what the shell would expand left in them."""
    text = _SUBSTITUTION.sub("$", _QUOTES.sub("", _decoded(text)))
    return _split(_BETWEEN_EXPANDING, text)


def _split(between: re.Pattern[str], text: str) -> list[str]:
    return [word for word in between.split(text) if word]


def expands(word: str) -> bool:
    return _EXPANDS.search(word) is not None


def may_become(word: str, name: str) -> bool:
    """Whether a word is this name, or could be once it is expanded; a mere ``*`` is taken for names of files."""
    first = _EXPANDS.search(word)
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
    return _ANSI_QUOTED.sub(lambda quoted: ansi_characters(quoted[1]).replace("\0", " "), joined)
