"""Expansions in words, and the values that the line itself shows for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice, product
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

_FIRST_MARK = 0xF0000
"""Marks are characters of a private area of Unicode, so that no text contains them by accident."""
_MAX_MARKS = 0xFFF0
_MARK = re.compile("[\U000f0000-\U000ffffd]")
_MAX_VALUES = 16
_MAX_VARIANTS = 64
_MAX_DEPTH = 4
_MAX_DEFAULT_LENGTH = 512
_NESTED_DEFAULT = re.compile(r"\$\{\w+(?:\[[^]]*\])?:?[-=+?]([^${}]*)\}")
_SEPARATORS = re.compile(r"[^\w./+%@-]+")


@dataclass
class Expansion:
    """An expansion ``$...`` in a word; a substitution has no ``name``."""

    name: str = ""
    quoted: bool = False
    many: bool = False
    """True if it can be several words although it is quoted, as ``"$@"``."""
    indirect: bool = False
    """True if its value can be any word of the line."""
    default: str | None = None
    """The word after ``:-`` and the like."""
    edits: str | None = None
    """The operation on the value: ``#...``, ``/.../...``, ``:...``."""


class Assignment(NamedTuple):
    """A value of a variable, which may contain the marks of other expansions."""

    name: str
    value: str
    appends: bool = False


class TooMany(Exception):
    """Raised if a command has more variants than are compared one by one."""


class Scattered(Struct, frozen=True):
    """Sets of words that a command's words come from, if the combinations are too many."""

    words: Sequence[Set[str]]
    globs: Sequence[str] = ()
    """Words that mix an expansion with other text, as globs."""

    def may_hold(self, token: str) -> bool:
        if any(token in words for words in self.words):
            return True
        return any(could_be(glob, token) for glob in self.globs)


@dataclass
class Marks:
    """The expansions of a text, each with the character that replaces it in words."""

    expansions: list[Expansion] = field(default_factory=list)
    _known: dict[tuple[str, bool], str] = field(default_factory=dict)

    def mark(self, expansion: Expansion) -> str:
        if len(self.expansions) < _MAX_MARKS:
            self.expansions.append(expansion)
        return chr(_FIRST_MARK + len(self.expansions) - 1)

    def variable(self, name: str, *, quoted: bool) -> str:
        """Return the mark of a plain ``$name``, the same wherever it is."""
        if (name, quoted) not in self._known:
            is_list = name in ("@", "*")
            indirect = name.isdecimal() or is_list
            self._known[name, quoted] = self.mark(Expansion(name, quoted, is_list, indirect))
        return self._known[name, quoted]

    def of(self, mark: str) -> Expansion:
        place = ord(mark) - _FIRST_MARK
        return self.expansions[place] if place < len(self.expansions) else Expansion()


def unmarked(text: str) -> str:
    """Return the text with all its expansions empty."""
    return text if text.isascii() else _MARK.sub("", text)


def defaults(raw: str | None) -> Iterator[str]:
    """Yield the texts that the word after ``:-`` can be, as far as it is plain text."""
    if raw is None or len(raw) > _MAX_DEFAULT_LENGTH:
        return
    text = ANSI_QUOTED.sub(lambda quoted: ansi_characters(quoted[1]), raw.replace("\\\n", ""))
    for _ in range(_MAX_DEPTH):
        yield QUOTES.sub("", text)
        text, found = _NESTED_DEFAULT.subn(r"\1", text)
        if not found:
            return


class Values:
    """The values of variables in a line.

    ``tokens`` are the words of patterns, ``visible`` those of them that the line contains.
    ``data`` is what the line prints or gives as here-documents; it grows while the line is read.
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
        # Every value counts from now on, also for commands before the assignment: a loop or a
        # function may run them later.
        if assignment.appends and len(values) <= _MAX_VALUES:
            values.update(dict.fromkeys([value + assignment.value for value in values]))
        values[assignment.value] = None

    def feed(self, name: str) -> None:
        """Note a variable that is read from data, such as by ``read``."""
        self._fed.add(name)

    def texts(self) -> Iterator[str]:
        for values in self._values.values():
            yield from (restore(unmarked(value)) for value in values)

    def variants(self, words: Sequence[str], marks: Marks) -> Iterator[list[str]]:
        """Yield the words with each expansion replaced by each of its values.

        An unknown expansion is no word or one word: ``git -C $(pwd) push``. Raise ``TooMany``
        if there are too many combinations.
        """
        present = list(dict.fromkeys(_MARK.findall("".join(words))))
        choices: dict[str, list[str]] = {}
        for mark in present:
            expansion = marks.of(mark)
            if len(self._values.get(expansion.name, ())) > _MAX_VALUES:
                raise TooMany
            if found := self._candidates(expansion, marks, 0):
                choices[mark] = found
        if prod(map(len, choices.values())) > _MAX_VARIANTS:
            raise TooMany
        blanks = ("", " ", "_") if choices else (" ", "_")
        for values in product(*choices.values()):
            chosen = dict(zip(choices, values, strict=True))
            for blank in blanks:
                yield _substituted(words, marks, chosen, blank)
            if "IFS" in self._values:
                # `IFS=,; $x` splits a value at other characters than blanks
                split = {mark: _SEPARATORS.sub(" ", value) for mark, value in chosen.items()}
                yield _substituted(words, marks, split, " ")

    def scattered(self, words: Sequence[str], marks: Marks) -> Scattered:
        """Return all that the words could contain, without combining it."""
        expansions = {marks.of(mark).name: marks.of(mark) for mark in _MARK.findall("".join(words))}
        given: set[str] = set()
        for name, expansion in expansions.items():
            if len(self._values.get(name, ())) > _MAX_VALUES:
                continue
            for text in self._candidates(expansion, marks, 0):
                given.update(_plain_words(text))
        plain = [restore(word) for word in words]
        names = {text.rsplit("/", 1)[-1].casefold() for text in plain}
        folded = {text.casefold() for text in plain}
        globs = [glob for word in words if (glob := _MARK.sub("*", word)) not in (word, "*")]
        return Scattered([*map(self._words_of, expansions), given, names, folded], globs)

    def _words_of(self, name: str) -> frozenset[str]:
        """Return all words of all values of a variable."""
        values = self._values.get(name, {})
        # Splitting again for each command would take quadratic time in a line that assigns often.
        count, known = self._words.get(name, (0, frozenset()))
        if count != len(values):
            known = frozenset[str]().union(*map(_plain_words, values))
            self._words[name] = (len(values), known)
        if name in self._fed:
            return known.union(self._visible)
        return known

    def _candidates(self, expansion: Expansion, marks: Marks, depth: int) -> list[str]:
        if depth > _MAX_DEPTH:
            return []
        found = dict.fromkeys(map(protect, defaults(expansion.default)))
        for value in self._values.get(expansion.name, ()):
            found.update(dict.fromkeys(self._resolved(value, marks, depth + 1)))
        if expansion.indirect or expansion.name in self._fed:
            found.update(dict.fromkeys(self._visible))
            found.update(dict.fromkeys(islice(self._data_words(), _MAX_VALUES)))
        if expansion.edits is not None:
            # ${x/a/b}: a token counts if its letters are among those of a value and the edit
            sources = [set((value + expansion.edits).casefold()) for value in (*found, "")]
            for token in self._tokens:
                if any(set(token) <= letters for letters in sources):
                    found[token] = None
        return list(found)

    def _data_words(self) -> Iterator[str]:
        for text in self._data[:_MAX_VALUES]:
            yield from filter(None, _SEPARATORS.split(text[:_MAX_DEFAULT_LENGTH]))

    def _resolved(self, value: str, marks: Marks, depth: int) -> list[str]:
        present = list(dict.fromkeys(_MARK.findall(value)))
        if not present:
            return [value]
        choices = [self._candidates(marks.of(mark), marks, depth) or [""] for mark in present]
        resolved: list[str] = []
        for values in islice(product(*choices), _MAX_VALUES + 1):
            chosen = dict(zip(present, values, strict=True))
            resolved.append(_replaced(value, chosen, ""))
        return resolved


def _replaced(word: str, chosen: dict[str, str], otherwise: str) -> str:
    return _MARK.sub(lambda mark: chosen.get(mark[0], otherwise), word)


def _substituted(
    words: Sequence[str], marks: Marks, chosen: dict[str, str], blank: str
) -> list[str]:
    """Return the words that bash would make of these: values that are not quoted are split."""
    result: list[str] = []
    split = {mark: restore(text) for mark, text in chosen.items()}
    whole = {mark: protect(text) for mark, text in split.items()}
    for word in words:
        expansions = [marks.of(mark) for mark in _MARK.findall(word)]
        if not expansions:
            result.append(word)
        elif all(expansion.quoted and not expansion.many for expansion in expansions):
            result.append(_replaced(word, whole, ""))
        else:
            result.extend(_replaced(word, split, blank).split())
    return result


def _plain_words(text: str) -> list[str]:
    """Return the words of a value in lower case, with the special meaning of quotes undone."""
    return [word.casefold() for word in restore(unmarked(text)).split()]
