"""Options by which a program starts others or writes files, and how they are told from its words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from forge_cli.core.values import dataclass

_CLUSTER_MAX = 8
"""The first letter that takes a value takes all behind it; a few more are looked at in case it is none."""


@dataclass(frozen=True)
class Options:
    """Long names without dashes and short letters; a name that starts with a dash has to stand there exactly.

    Long options may be abbreviated, short ones stand in clusters. A letter counts wherever it is in a word that starts
    with one dash, so that ``-to`` is taken for ``-t -o``: it asks once too often rather than once too little.
    """

    runs: tuple[str, ...] = ()
    runs_short: str = ""
    writes: tuple[str, ...] = ()
    writes_short: str = ""
    reads: tuple[str, ...] = ()
    """Options whose value is a file that is sent away or shown, and that no operand names."""
    reads_short: str = ""
    prefixes: tuple[str, ...] = ()
    """A word that starts with one of these starts or loads something, as ``-Bdir`` and ``@file`` do for compilers."""

    def used(self, words: Sequence[str]) -> str | None:
        """What is wrong with these arguments."""
        for word in words:
            if _is(word, self.runs, self.runs_short):
                return f"{word} starts a program, or changes what is started"
            if self.prefixes and word.startswith(self.prefixes):
                return f"{word} starts or loads something"
            if _is(word, self.writes, self.writes_short):
                return f"{word} writes"
            if _is(word, self.reads, self.reads_short):
                return f"{word} reads a file"
        return None

    def arguments(self, words: Sequence[str]) -> Iterator[str]:
        """The programs that these arguments start."""
        for place, word in enumerate(words):
            if _is(word, self.runs, self.runs_short):
                value = word.partition("=")[2]
                yield from (value, value.partition("=")[2])
                yield from islice(_behind_each(word, self.runs_short), _CLUSTER_MAX)
                yield from words[place + 1 : place + 2]
            elif prefix := next(filter(word.startswith, self.prefixes), None):
                yield from (word.removeprefix(prefix).replace(",", " "), word.partition("=")[2])
                yield from words[place + 1 : place + 2]


def _behind_each(word: str, letters: str) -> Iterator[str]:
    return (word[at + 1 :] for at, letter in enumerate(word) if letter in letters)


def _is(word: str, names: tuple[str, ...], letters: str) -> bool:
    if not word.startswith("-") or len(word) < 2:
        return False
    name = word.partition("=")[0]
    if any(name == exact or name[1:] == exact for exact in names if exact.startswith("-")):
        return True
    if word.startswith("--"):
        return len(name) > 2 and any(long.startswith(name[2:]) for long in names)
    return any(letter in word for letter in letters)
