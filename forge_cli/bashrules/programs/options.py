"""Options by which programs start others, write or send files, and options that do not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice

from msgspec import Struct, field

from forge_cli.bashrules.programs.table import ProgramRow, program_named

_NUMBER = re.compile(r"-[0-9]+")
"""A number of lines, for programs that take one."""
_MAX_CLUSTER = 8
"""The letters of a cluster whose rest may be a value; the first that takes one takes it all."""


class OptionNames(Struct, frozen=True):
    """Options as a row writes them: ``-x``, ``--long``, ``-exact`` and ``prefix*``.

    Long options may be abbreviated unless a row says ``whole``; short ones may be in clusters
    unless it says ``exact``. A letter counts anywhere in a word with one dash, so that ``-to`` is
    read as ``-t -o``: better to ask once too often.
    """

    letters: str = ""
    longs: tuple[str, ...] = ()
    exact: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    like: re.Pattern[str] | None = None
    """A pattern of whole words with the same effect as one of these options."""

    @classmethod
    def of(cls, rows: Sequence[ProgramRow], key: str) -> OptionNames:
        """Return the options that some rows have under a key."""
        options = chain.from_iterable(getattr(row, key) for row in rows)
        like = [pattern for row in rows if (pattern := getattr(row, f"{key}_like", ""))]
        exact = any(row.exact for row in rows)
        whole = any(row.whole for row in rows)
        prefixes: list[str] = []
        letters: list[str] = []
        longs: list[str] = []
        exactly: set[str] = set()
        for option in options:
            if option.endswith("*"):
                prefixes.append(option[:-1])
            elif len(option) == len("-x") and not exact:
                letters.append(option[1])
            elif option.startswith("--") and not whole:
                longs.append(option[2:])
            else:
                exactly.add(option)
        pattern = re.compile("|".join(like), re.DOTALL) if like else None
        return cls("".join(letters), tuple(longs), frozenset(exactly), tuple(prefixes), pattern)

    def has(self, word: str) -> bool:
        is_like = self.like is not None and self.like.fullmatch(word) is not None
        return is_like or word.startswith(self.prefixes) or self._is_option(word)

    def _is_option(self, word: str) -> bool:
        if not word.startswith("-") or len(word) < 2:
            return False
        name = word.partition("=")[0]
        if name in self.exact or name[1:] in self.exact:
            return True
        if word.startswith("--"):
            return len(name) > 2 and any(long.startswith(name[2:]) for long in self.longs)
        return any(letter in word for letter in self.letters)


class Options(Struct, frozen=True):
    """The options of a program with effects beyond what the program is for."""

    starts: OptionNames = field(default_factory=OptionNames)
    writes: OptionNames = field(default_factory=OptionNames)
    sends: OptionNames = field(default_factory=OptionNames)
    """Options whose value is a file that is sent or shown, though it is no operand."""

    @classmethod
    def of(cls, rows: Sequence[ProgramRow]) -> Options:
        return cls(*(OptionNames.of(rows, key) for key in ("starts", "writes", "sends")))

    def used(self, words: Sequence[str]) -> str | None:
        """Return the problem of these arguments, or None."""
        for at, word in enumerate(words):
            if self.starts.has(word):
                return f"{word} starts or loads something, or changes what is started"
            if self.writes.has(word) and not self._writes_nowhere(word, words[at + 1 : at + 2]):
                return f"{word} writes"
            if self.sends.has(word):
                return f"{word} may be a file that is read and sent"
        return None

    def _writes_nowhere(self, word: str, after: Sequence[str]) -> bool:
        """Return True for ``-o /dev/null``, alone or after letters that write nothing."""
        if word in ("-o/dev/null", "-o=/dev/null", "--output=/dev/null"):
            return True
        if list(after) != ["/dev/null"]:
            return False
        if word != "--output" and not (word.startswith("-") and word.endswith("o")):
            return False
        letters = "" if word.startswith("--") else word[1:-1]
        return not any(letter in self.writes.letters for letter in letters)

    def arguments(self, words: Sequence[str]) -> Iterator[str]:
        """Yield the programs that these arguments start."""
        starts = self.starts
        for place, word in enumerate(words):
            if prefix := next(filter(word.startswith, starts.prefixes), None):
                yield from (word.removeprefix(prefix).replace(",", " "), word.partition("=")[2])
                yield from words[place + 1 : place + 2]
            elif starts.has(word):
                value = word.partition("=")[2]
                yield from (value, value.partition("=")[2])
                # -xvalue, or a cluster: every rest of the word may be the value
                clustered = (
                    word[at + 1 :] for at, letter in enumerate(word) if letter in starts.letters
                )
                yield from islice(clustered, _MAX_CLUSTER)
                yield from words[place + 1 : place + 2]


@lru_cache(maxsize=256)
def options_of(name: str) -> Options:
    """Return the options of a program, by its name, that have other effects."""
    return Options.of(program_named(name).rows)


class KnownOptions(Struct, frozen=True):
    """Options without other effects: ``flags`` stand alone, ``values`` take a value.

    A value may have to match a pattern: ``-j=[0-9]+``. An option that is also a flag takes no
    other value.
    """

    flags: frozenset[str] = frozenset()
    values: Mapping[str, re.Pattern[str] | None] = field(default_factory=dict)
    exact: bool = False
    """True if there are no clusters."""

    @classmethod
    def of(cls, rows: Sequence[ProgramRow], *, takes: bool = False) -> KnownOptions:
        """Return the options of some rows; with ``takes``, also those with other effects."""
        flags = frozenset[str]().union(*(row.flags for row in rows))
        said: list[str] = []
        for row in rows:
            said += row.values
            if takes:
                said += row.takes
        values: dict[str, re.Pattern[str] | None] = {}
        for option in said:
            name, _, shape = option.partition("=")
            values[name] = re.compile(shape) if shape else None
        return cls(flags, values, exact=any(row.exact for row in rows))

    def taken(self, option: str, after: str | None = None) -> int | None:
        """Return how many words an option takes, itself included; None if it is unknown."""
        name, equals, value = option.partition("=")
        if name in self.values:
            return self._value_taken(name, value if equals else None, after)
        if name in self.flags:
            return None if equals else 1
        if option.startswith("--") or self.exact:
            return None
        for place, letter in enumerate(option[1:], 2):
            if f"-{letter}" in self.values:
                attached = option[place:] if place < len(option) else None
                taken = self._value_taken(f"-{letter}", attached, after)
                if attached is None or taken or f"-{letter}" not in self.flags:
                    return taken
            elif f"-{letter}" not in self.flags:
                return None
        return 1 if len(option) > 1 else None

    def _value_taken(self, name: str, attached: str | None, after: str | None) -> int | None:
        shape = self.values[name]
        if attached is not None:
            return 1 if shape is None or shape.fullmatch(attached) else None
        if shape is None or after is None or shape.fullmatch(after):
            return 2
        return 1 if name in self.flags else None

    def operands(self, words: Sequence[str]) -> Iterator[int]:
        """Yield the places of the words that are neither options nor their values."""
        pos = 1
        while pos < len(words):
            word = words[pos]
            if word == "--":
                yield from range(pos + 1, len(words))
                return
            if not word.startswith("-") or word == "-":
                yield pos
                pos += 1
            else:
                pos += self.taken(word, "".join(words[pos + 1 : pos + 2])) or 1

    def unknown(self, words: Sequence[str], reach: int, *, numbers: bool = False) -> str | None:
        """Return the first unknown option after the words of a rule, or None.

        With ``numbers``, a number is a known option: ``head -5``.
        """
        pos = 1
        while pos < len(words) and words[pos] != "--":
            taken: int | None = 1
            if words[pos].startswith("-") and words[pos] != "-":
                taken = self.taken(words[pos], "".join(words[pos + 1 : pos + 2]))
            if taken is None and pos >= reach and not (numbers and _NUMBER.fullmatch(words[pos])):
                return words[pos]
            pos += taken or 1
        return None


@lru_cache(maxsize=256)
def known_options(name: str) -> KnownOptions:
    """Return the harmless options of a program, by its name."""
    return KnownOptions.of(program_named(name).rows)
