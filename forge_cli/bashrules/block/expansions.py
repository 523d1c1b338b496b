"""Expansions in words, and the values that can be seen for them in the line: what it assigns, defaults or feeds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain, islice, product
from math import prod
from typing import NamedTuple

from msgspec import Struct

from forge_cli.bashrules.block.quoting import (
    ANSI_QUOTED,
    QUOTES,
    ansi_characters,
    could_be,
    protect,
    restore,
)

_FIRST_MARK, _MARKS_MAX = 0xF0000, 0xFFF0
_MARK = re.compile("[\U000f0000-\U000ffffd]")
_VALUES_MAX = 16
_VARIANTS_MAX = 64
_DEPTH_MAX = 4
_DEFAULT_LENGTH = 512
_NESTED_DEFAULT = re.compile(r"\$\{\w+(?:\[[^]]*\])?:?[-=+?]([^${}]*)\}")
_SEPARATORS = re.compile(r"[^\w./+%@-]+")


@dataclass
class Expansion:
    """One ``$...`` in a word; ``name`` is empty for a substitution."""

    name: str = ""
    quoted: bool = False
    many: bool = False
    """Whether it may be several words although it is quoted."""
    indirect: bool = False
    """Whether its value can be any word of the line."""
    default: str | None = None
    """The word behind ``:-`` and the like."""
    edits: str | None = None
    """The operation on the value: ``#...``, ``/.../...``, ``:...``."""


class Assignment(NamedTuple):
    """A value that a variable gets; it may hold the marks of other expansions."""

    name: str
    value: str
    appends: bool = False


class TooMany(Exception):
    """There are more variants of a command than are looked at one by one."""


class Scattered(Struct, frozen=True):
    """Sources of a command's words, if there is no telling which of them come together."""

    words: Sequence[Set[str]]
    globs: Sequence[str] = ()
    """Words with an expansion beside other text, as globs."""

    def may_hold(self, token: str) -> bool:
        return any(token in words for words in self.words) or any(
            could_be(glob, token) for glob in self.globs
        )


@dataclass
class Marks:
    """The expansions of a text, each with the character that stands for it in words."""

    expansions: list[Expansion] = field(default_factory=list)
    _known: dict[tuple[str, bool], str] = field(default_factory=dict)

    def mark(self, expansion: Expansion) -> str:
        if len(self.expansions) < _MARKS_MAX:
            self.expansions.append(expansion)
        return chr(_FIRST_MARK + len(self.expansions) - 1)

    def variable(self, name: str, *, quoted: bool) -> str:
        """The mark of a plain ``$name``, which is the same wherever it stands."""
        if (name, quoted) not in self._known:
            indirect = name.isdecimal() or name in ("@", "*")
            self._known[name, quoted] = self.mark(
                Expansion(name, quoted, name in ("@", "*"), indirect)
            )
        return self._known[name, quoted]

    def of(self, mark: str) -> Expansion:
        place = ord(mark) - _FIRST_MARK
        return self.expansions[place] if place < len(self.expansions) else Expansion()


def unmarked(text: str) -> str:
    """The text with all its expansions empty."""
    return text if text.isascii() else _MARK.sub("", text)


def defaults(raw: str | None) -> Iterator[str]:
    """The word behind ``:-``, as far as it is text."""
    if raw is None or len(raw) > _DEFAULT_LENGTH:
        return
    text = ANSI_QUOTED.sub(lambda quoted: ansi_characters(quoted[1]), raw.replace("\\\n", ""))
    for _ in range(_DEPTH_MAX):
        yield QUOTES.sub("", text)
        text, found = _NESTED_DEFAULT.subn(r"\1", text)
        if not found:
            return


class Values:
    """Values of variables in a line; of ``tokens``, the words of patterns, some are ``visible`` in it.

    ``data`` is what is printed or given as a here-document, and grows while the line is read.
    """

    def __init__(self, tokens: Iterable[str], visible: Iterable[str], data: Sequence[str]) -> None:
        self._tokens = tuple(tokens)
        self._visible = tuple(visible)
        self._data = data
        self._values: dict[str, dict[str, None]] = {}
        self._fed: set[str] = set()
        self._words: dict[str, tuple[int, frozenset[str]]] = {}

    def assign(self, assignment: Assignment) -> None:
        values = self._values.setdefault(assignment.name, {})
        if assignment.appends and len(values) <= _VALUES_MAX:
            values.update(dict.fromkeys([value + assignment.value for value in values]))
        values[assignment.value] = None

    def feed(self, name: str) -> None:
        """A variable that is read from data, or counts what is given to a function."""
        self._fed.add(name)

    def texts(self) -> Iterator[str]:
        for values in self._values.values():
            yield from (restore(unmarked(value)) for value in values)

    def variants(self, words: Sequence[str], marks: Marks) -> Iterator[list[str]]:
        """The words with each expansion replaced by what it could be; raises ``TooMany``.

        One of which nothing is known is no word, or one: ``git -C $(pwd) push``.
        """
        present = list(dict.fromkeys(_MARK.findall("".join(words))))
        if any(len(self._values.get(marks.of(mark).name, ())) > _VALUES_MAX for mark in present):
            raise TooMany
        choices = {
            mark: found for mark in present if (found := self._candidates(marks.of(mark), marks, 0))
        }
        if prod(map(len, choices.values())) > _VARIANTS_MAX:
            raise TooMany
        for values in product(*choices.values()):
            chosen = dict(zip(choices, values, strict=True))
            for blank in ("", " ", "_") if choices else (" ", "_"):
                yield _substituted(words, marks, chosen, blank)
            if "IFS" in self._values:
                yield _substituted(
                    words, marks, {mark: _SEPARATORS.sub(" ", chosen[mark]) for mark in chosen}, " "
                )

    def scattered(self, words: Sequence[str], marks: Marks) -> Scattered:
        """All that the words could be, without a look at how it comes together."""
        expansions = {marks.of(mark).name: marks.of(mark) for mark in _MARK.findall("".join(words))}
        few = [
            one
            for name, one in expansions.items()
            if len(self._values.get(name, ())) <= _VALUES_MAX
        ]
        given: set[str] = set()
        for one in few:
            for text in self._candidates(one, marks, 0):
                given.update(_plain_words(text))
        plain = {text.rsplit("/", 1)[-1].casefold() for text in map(restore, words)}
        globs = [glob for word in words if (glob := _MARK.sub("*", word)) not in (word, "*")]
        return Scattered(
            [
                *map(self._words_of, expansions),
                given,
                plain,
                {*map(str.casefold, map(restore, words))},
            ],
            globs,
        )

    def _words_of(self, name: str) -> frozenset[str]:
        """All words of all values of a variable, gathered again when there are more of them."""
        values = self._values.get(name, {})
        count, known = self._words.get(name, (0, frozenset()))
        if count != len(values):
            known = frozenset[str]().union(*map(_plain_words, values))
            self._words[name] = (len(values), known)
        return known | frozenset(self._visible if name in self._fed else ())

    def _candidates(self, expansion: Expansion, marks: Marks, depth: int) -> list[str]:
        if depth > _DEPTH_MAX:
            return []
        found = dict.fromkeys(map(protect, defaults(expansion.default)))
        for value in self._values.get(expansion.name, ()):
            found.update(dict.fromkeys(self._resolved(value, marks, depth + 1)))
        if expansion.indirect or expansion.name in self._fed:
            found.update(dict.fromkeys(self._visible))
            texts = (_SEPARATORS.split(text[:_DEFAULT_LENGTH]) for text in self._data[:_VALUES_MAX])
            words = filter(None, chain.from_iterable(texts))
            found.update(dict.fromkeys(islice(words, _VALUES_MAX)))
        if expansion.edits is not None:
            sources = [set((value + expansion.edits).casefold()) for value in (*found, "")]
            found.update(
                dict.fromkeys(
                    token for token in self._tokens if any(set(token) <= one for one in sources)
                )
            )
        return list(found)

    def _resolved(self, value: str, marks: Marks, depth: int) -> list[str]:
        present = list(dict.fromkeys(_MARK.findall(value)))
        if not present:
            return [value]
        choices = [self._candidates(marks.of(mark), marks, depth) or [""] for mark in present]
        combined = islice(product(*choices), _VALUES_MAX + 1)
        return [
            _replaced(value, dict(zip(present, chosen, strict=True)), "") for chosen in combined
        ]


def _replaced(word: str, chosen: dict[str, str], otherwise: str) -> str:
    return _MARK.sub(lambda mark: chosen.get(mark[0], otherwise), word)


def _substituted(
    words: Sequence[str], marks: Marks, chosen: dict[str, str], blank: str
) -> list[str]:
    """The words that bash would make of these: what is not quoted is split."""
    result: list[str] = []
    split = {mark: restore(text) for mark, text in chosen.items()}
    whole = {mark: protect(text) for mark, text in split.items()}
    for word in words:
        present = _MARK.findall(word)
        if not present:
            result.append(word)
        elif all(marks.of(mark).quoted and not marks.of(mark).many for mark in present):
            result.append(_replaced(word, whole, ""))
        else:
            result.extend(_replaced(word, split, blank).split())
    return result


def _plain_words(text: str) -> list[str]:
    """The words of a value, in lower case and as they are without quotes."""
    return [word.casefold() for word in restore(unmarked(text)).split()]
