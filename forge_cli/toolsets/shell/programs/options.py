"""Options of a program: those by which it starts others, writes or sends files, and those known to do nothing of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from forge_cli.toolsets.shell.programs.table import KnownProgram, ProgramRow, program_named

_CLUSTER_MAX = 8
"""The first letter that takes a value takes all behind it; a few more are looked at in case it is none."""


@dataclass(frozen=True)
class OptionNames:
    """Options as a row spells them: ``-x``, ``--long``, ``-exact`` and ``prefix*``.

    Long options may be abbreviated unless a row says ``whole``, short ones stand in clusters unless it says ``exact``.
    A letter counts wherever it is in a word that starts with one dash, so that ``-to`` is taken for ``-t -o``: it asks
    once too often rather than once too little.
    """

    letters: str = ""
    longs: tuple[str, ...] = ()
    exact: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    like: re.Pattern[str] | None = None
    """What a whole word looks like that does the same as one of these options."""

    @classmethod
    def of(cls, rows: Sequence[ProgramRow], key: str) -> OptionNames:
        """The options that some rows have under a key."""
        options = [option for row in rows for option in getattr(row, key).split()]
        like = [pattern for row in rows if (pattern := getattr(row, f"{key}_like", ""))]
        exact, whole = (any(getattr(row, said) for row in rows) for said in ("exact", "whole"))
        prefixes, letters, longs, exactly = [], [], [], set()
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
        return word.startswith(self.prefixes) or self._is_like(word) or self._is_option(word)

    def _is_like(self, word: str) -> bool:
        return self.like is not None and self.like.fullmatch(word) is not None

    def _is_option(self, word: str) -> bool:
        if not word.startswith("-") or len(word) < 2:
            return False
        name = word.partition("=")[0]
        if name in self.exact or name[1:] in self.exact:
            return True
        if word.startswith("--"):
            return len(name) > 2 and any(long.startswith(name[2:]) for long in self.longs)
        return any(letter in word for letter in self.letters)


@dataclass(frozen=True)
class Options:
    """What the options of a program do beside what the program is for."""

    starts: OptionNames = field(default_factory=OptionNames)
    writes: OptionNames = field(default_factory=OptionNames)
    sends: OptionNames = field(default_factory=OptionNames)
    """Options whose value is a file that is sent away or shown, and that no operand names."""

    @classmethod
    def of(cls, rows: Sequence[ProgramRow]) -> Options:
        return cls(*(OptionNames.of(rows, key) for key in ("starts", "writes", "sends")))

    def used(self, words: Sequence[str]) -> str | None:
        """What is wrong with these arguments."""
        for word in words:
            if self.starts.has(word):
                return f"{word} starts or loads something, or changes what is started"
            if self.writes.has(word):
                return f"{word} writes"
            if self.sends.has(word):
                return f"{word} may be a file that is read and sent"
        return None

    def arguments(self, words: Sequence[str]) -> Iterator[str]:
        """The programs that these arguments start."""
        starts = self.starts
        for place, word in enumerate(words):
            if prefix := next(filter(word.startswith, starts.prefixes), None):
                yield from (word.removeprefix(prefix).replace(",", " "), word.partition("=")[2])
                yield from words[place + 1 : place + 2]
            elif starts.has(word):
                value = word.partition("=")[2]
                yield from (value, value.partition("=")[2])
                yield from islice(_behind_each(word, starts.letters), _CLUSTER_MAX)
                yield from words[place + 1 : place + 2]


@lru_cache(maxsize=256)
def options_of(name: str) -> Options:
    return Options.of(program_named(name).rows)


def _behind_each(word: str, letters: str) -> Iterator[str]:
    return (word[at + 1 :] for at, letter in enumerate(word) if letter in letters)


@dataclass(frozen=True)
class KnownOptions:
    """Options that do nothing but what a program is for: ``flags`` stand alone, ``values`` take a value."""

    flags: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()

    @classmethod
    def of(cls, program: KnownProgram | ProgramRow) -> KnownOptions:
        rows = program.rows if isinstance(program, KnownProgram) else (program,)
        flags = frozenset(flag for row in rows for flag in row.flags.split())
        return cls(flags, frozenset(value for row in rows for value in row.values.split()))

    def taken(self, option: str) -> int | None:
        """How many words an option takes, itself included; None where that is not known."""
        name, equals, _ = option.partition("=")
        if name in self.values:
            return 1 if equals else 2
        if name in self.flags:
            return None if equals else 1
        return None if option.startswith("--") else self._letters_taken(option)

    def _letters_taken(self, option: str) -> int | None:
        for place, letter in enumerate(option[1:], 2):
            if f"-{letter}" in self.values:
                return 1 if place < len(option) else 2
            if f"-{letter}" not in self.flags:
                return None
        return 1 if len(option) > 1 else None
