"""Blocked patterns, and whether words begin with one: no path, no case, git's global options passed over."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from forge_cli.toolsets.shell.block.bare import expands, may_become
from forge_cli.toolsets.shell.block.quoting import restore
from forge_cli.toolsets.shell.programs.git import GitWords

_GLOB_LENGTH = 64
"""A longer glob in place of a program is no command that anybody means."""
_EXPANDING_AT_MOST = 1000
"""Nor does anybody mean so many of them in one line."""
_OPTIONS = 4
"""Words between git and its subcommand in what is looked at only once, however often it comes."""
_STARS = re.compile(r"\*+")


class Patterns:
    """Some patterns, found by the name of the program: the tokens behind it, and its place."""

    def __init__(self, patterns: Sequence[tuple[str, ...]]) -> None:
        self._by_name: dict[str, dict[tuple[str, ...], int]] = {}
        for index, tokens in enumerate(patterns):
            folded = tuple(token.casefold() for token in tokens)
            self._by_name.setdefault(_base(folded[0]), {}).setdefault(folded[1:], index)
        self._lengths = {name: sorted(set(map(len, rests))) for name, rests in self._by_name.items()}
        self._longest = 1 + max((length for lengths in self._lengths.values() for length in lengths), default=0)

    @property
    def any(self) -> int:
        """One of the patterns, for what could be any of them."""
        return next(iter(next(iter(self._by_name.values())).values()))

    def match(self, words: Sequence[str], start: int, git: GitWords) -> int | None:
        """The pattern that the words from ``start`` on begin with."""
        name = _base(words[start].casefold())
        found = self._match(name, words, start + 1)
        if found is None and name == "git" and "git" in self._by_name:
            found = self._match("git", words, git.subcommand(start))
        if found is None and name.startswith("git-") and "git" in self._by_name:
            found = self._match("git", [name[4:], *words[start + 1 : start + 16]], 0)
        return found

    def match_anywhere(self, words: Sequence[str]) -> tuple[int, int] | None:
        """A pattern that the words begin with somewhere, and where."""
        git = GitWords(words)
        known = {word for word in set(words) if self._knows(word)}
        seen: set[tuple[str, ...]] = set()
        for start in (start for start, word in enumerate(words) if word in known):
            these = tuple(words[start : start + self._longest + _OPTIONS])
            if these in seen:
                continue
            if (pattern := self.match(words, start, git)) is not None:
                return pattern, start
            if git.subcommand(start) <= start + 1 + _OPTIONS:
                seen.add(these)
        return None

    def match_glob(self, glob: str, words: Sequence[str], start: int, git: GitWords) -> int | None:
        """The pattern for words whose first is a glob: whatever it could stand for."""
        glob = restore(_STARS.sub("*", _base(glob.casefold())))
        if len(glob) > _GLOB_LENGTH:
            return self.any
        places = {name: git.subcommand(start) if name == "git" else start + 1 for name in self._by_name}
        hits = (self._match(name, words, place) for name, place in places.items() if fnmatchcase(name, glob))
        return next((hit for hit in hits if hit is not None), None)

    def match_expanding(self, words: Sequence[str]) -> tuple[int, int] | None:
        """A pattern that words which still expand could begin with somewhere, and where."""
        expanding = set(filter(expands, set(words)))
        places = (place for place, word in enumerate(words) if word in expanding)
        starts = (start for place in places for start in range(max(0, place + 1 - self._longest), place + 1))
        seen: dict[tuple[str, ...], int] = {}
        for start in starts:
            seen.setdefault(tuple(words[start : start + self._longest]), start)
            if len(seen) > _EXPANDING_AT_MOST:
                return self.any, start
        for these, start in seen.items():
            if (pattern := next(self._possible(these), None)) is not None:
                return pattern, start
        return None

    def _knows(self, word: str) -> bool:
        name = _base(word.casefold())
        return name in self._by_name or (name.startswith("git-") and "git" in self._by_name)

    def _possible(self, words: Sequence[str]) -> Iterator[int]:
        first, *others = (word.casefold() for word in words)
        for name, rests in self._by_name.items():
            if may_become(_base(first), name):
                fits = (len(rest) <= len(others) and all(map(may_become, others, rest)) for rest in rests)
                yield from (index for index, fit in zip(rests.values(), fits, strict=True) if fit)

    def _match(self, name: str, words: Sequence[str], after: int) -> int | None:
        for length in self._lengths.get(name, ()):
            rest = tuple(map(str.casefold, words[after : after + length]))
            if rest in self._by_name[name]:
                return self._by_name[name][rest]
        return None


def _base(word: str) -> str:
    return word.rsplit("/", 1)[-1]
