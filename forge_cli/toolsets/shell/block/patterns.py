"""Blocked patterns, and whether words begin with one: no path, no case, git's global options passed over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from forge_cli.toolsets.shell.block.bare import expands, may_become
from forge_cli.toolsets.shell.block.expansions import Scattered
from forge_cli.toolsets.shell.block.globs import could_be, is_glob
from forge_cli.toolsets.shell.block.quoting import restore
from forge_cli.toolsets.shell.programs.git import GitWords

_GLOB_LENGTH = 64
"""A longer glob in place of a program is no command that anybody means."""
_EXPANDING_AT_MOST = 1000
"""Nor does anybody mean so many of them in one line."""
_OPTIONS = 4
"""Words between git and its subcommand in what is looked at only once, however often it comes."""


class Patterns:
    """Some patterns, found by the name of the program: the tokens behind it, and its place."""

    def __init__(self, patterns: Sequence[tuple[str, ...]]) -> None:
        self._by_name: dict[str, dict[tuple[str, ...], int]] = {}
        for index, tokens in enumerate(patterns):
            folded = tuple(token.casefold() for token in tokens)
            self._by_name.setdefault(_base(folded[0]), {}).setdefault(folded[1:], index)
        self._lengths = {name: sorted(set(map(len, rests))) for name, rests in self._by_name.items()}
        self._longest = 1 + max((length for lengths in self._lengths.values() for length in lengths), default=0)

    @cached_property
    def tokens(self) -> frozenset[str]:
        """All the tokens of all patterns, in lower case."""
        rests = (rest for rests in self._by_name.values() for rest in rests)
        return frozenset(self._by_name) | {token for rest in rests for token in rest}

    @property
    def any(self) -> int:
        """One of the patterns, for what could be any of them."""
        return next(iter(next(iter(self._by_name.values())).values()))

    def match(self, words: Sequence[str], start: int, git: GitWords) -> int | None:
        """The pattern that the words from ``start`` on begin with."""
        name = _base(words[start].casefold())
        found = self._match(name, words, start + 1)
        if found is None and name == "git" and (place := git.subcommand(start)) > start + 1:
            found = self._match("git", words, place)
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

    def match_glob(self, raw: Sequence[str], start: int, git: GitWords) -> int | None:
        """The pattern that words could begin with whose globs, and ``~``, stand for whatever fits."""
        first = _base(raw[start].casefold())
        head = [first] if is_glob(first) else []
        if first.startswith("git-"):
            return self.match_glob(["git", first[4:], *raw[start + 1 : start + self._longest]], 0, GitWords(()))
        if head:
            names = [name for name in self._by_name if len(first) > _GLOB_LENGTH or could_be(first, name)]
        else:
            names = [name] if (name := restore(first)) in self._by_name else []
        for name in names:
            places = {start + 1, git.subcommand(start) if name == "git" else start + 1}
            for rest, index in self._by_name[name].items():
                tokens = (name, *rest) if head else rest
                if any(_could_begin([*head, *raw[place : place + len(rest)]], tokens) for place in places):
                    return index
        return None

    def match_scattered(self, words: Scattered) -> tuple[int, tuple[str, ...]] | None:
        """A pattern whose tokens could all be among these words, and what it is."""
        for name, rests in self._by_name.items():
            for rest, index in rests.items() if words.may_hold(name) else ():
                if all(map(words.may_hold, rest)):
                    return index, (name, *rest)
        return None

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
                fits = (len(rest) <= len(others) and all(map(_argument_may_become, others, rest)) for rest in rests)
                yield from (index for index, fit in zip(rests.values(), fits, strict=True) if fit)

    def _match(self, name: str, words: Sequence[str], after: int) -> int | None:
        for length in self._lengths.get(name, ()):
            rest = tuple(map(str.casefold, words[after : after + length]))
            if rest in self._by_name[name]:
                return self._by_name[name][rest]
        return None


def _argument_may_become(word: str, token: str) -> bool:
    return word == "*" or may_become(word, token)


def _could_begin(words: Sequence[str], tokens: tuple[str, ...]) -> bool:
    """Whether words, the first ones of which may be globs for one or more words each, could begin with the tokens."""
    todo = [(0, 0)]
    while todo:
        place, token = todo.pop()
        if token == len(tokens):
            return True
        if place < len(words) and could_be(words[place], tokens[token]):
            todo.append((place + 1, token + 1))
            if is_glob(words[place]):
                todo.append((place, token + 1))
    return False


def _base(word: str) -> str:
    return word.rsplit("/", 1)[-1]
