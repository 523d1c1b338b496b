"""Blocked patterns, and whether words begin with one: no path, no case, options passed over, in any spelling."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from itertools import chain

from msgspec import Struct, field

from forge_cli.bashrules.block.expansions import Scattered
from forge_cli.bashrules.block.quoting import could_be, expands, is_glob, may_become, restore
from forge_cli.bashrules.programs.git import GitWords
from forge_cli.bashrules.programs.options import KnownOptions
from forge_cli.bashrules.programs.subcommands import starts_commands
from forge_cli.bashrules.programs.table import KnownProgram, program, program_named, table_index

_SLASHES = re.compile("//+")
_GLOB_LENGTH = 64
"""A longer glob in place of a program is not a command that a person means."""
_EXPANDING_AT_MOST = 1000
"""Nor does anybody mean so many of them in one line."""
_GIT_WORDS = 16
"""Words behind ``git-push`` that are looked at."""

_SUBCOMMANDS = ("known", "never", "spelled", "tools", "abbreviates")
_AROUND_TARGET = re.compile(r"^(?:[.]/+)+|^.*:|\[.*\]$", re.DOTALL)


class CommandWords(GitWords):
    """The words of a command, and what has been looked at in vain, however many commands start among them."""

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__(words)
        self.words = words
        self.looked_at: set[tuple[int, int, int, bool]] = set()


class Patterns:
    """Some patterns, found by the name of the program: the tokens behind it, and its place."""

    def __init__(self, patterns: Sequence[tuple[str, ...]]) -> None:
        self._by_name: dict[str, dict[tuple[str, ...], int]] = {}
        for index, tokens in enumerate(patterns):
            folded = tuple(map(_folded, tokens))
            self._by_name.setdefault(_base(folded[0]), {}).setdefault(folded[1:], index)
        self._longest = max(map(len, patterns), default=1)

    @cached_property
    def tokens(self) -> frozenset[str]:
        """All the tokens of all patterns, in lower case."""
        rests = chain.from_iterable(self._by_name.values())
        return frozenset(self._by_name).union(*rests)

    @property
    def any(self) -> int:
        """One of the patterns, for what could be any of them."""
        return next(iter(next(iter(self._by_name.values())).values()))

    def match(self, command: CommandWords, start: int, *, structured: bool = True) -> int | None:
        """The pattern that the words from ``start`` on match; without structure other commands may follow them."""
        words = command.words
        name = _base(words[start].casefold())
        if name.startswith("git-") and "git" in self._by_name:
            inner = ["git", name.removeprefix("git-"), *words[start + 1 : start + _GIT_WORDS]]
            if (found := self.match(CommandWords(inner), 0)) is not None:
                return found
        rests = self._by_name.get(name, {})
        spelling = spelling_of(name) if rests else Spelling()
        each_counts = not spelling.first_decides and (structured or name in table_index())
        walk = partial(
            _comes_to,
            command,
            start + 1,
            spelling,
            between=(each_counts, each_counts or structured),
        )
        return next((index for rest, index in rests.items() if walk(index, rest)), None)

    def match_anywhere(self, words: Sequence[str]) -> tuple[int, int] | None:
        """A pattern that the words match somewhere, and where."""
        command = CommandWords(words)
        known = {word for word in set(words) if self._knows(word)}
        for start in (start for start, word in enumerate(words) if word in known):
            if (pattern := self.match(command, start, structured=False)) is not None:
                return pattern, start
        return None

    def match_glob(self, raw: Sequence[str], start: int, git: GitWords) -> int | None:
        """The pattern that words could begin with whose globs, and ``~``, stand for whatever fits."""
        first = _base(raw[start].casefold())
        head = [first] if is_glob(first) else []
        if first.startswith("git-"):
            return self.match_glob(
                ["git", first[4:], *raw[start + 1 : start + self._longest]], 0, GitWords(())
            )
        if head:
            names = [
                name for name in self._by_name if len(first) > _GLOB_LENGTH or could_be(first, name)
            ]
        else:
            names = [name] if (name := restore(first)) in self._by_name else []
        for name in names:
            places = {start + 1, git.subcommand(start) if name == "git" else start + 1}
            for rest, index in self._by_name[name].items():
                tokens = (name, *rest) if head else rest
                if any(
                    _could_begin([*head, *raw[place : place + len(rest)]], tokens)
                    for place in places
                ):
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
        starts = (range(max(0, place + 1 - self._longest), place + 1) for place in places)
        seen: dict[tuple[str, ...], int] = {}
        for start in chain.from_iterable(starts):
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
                fits = (
                    len(rest) <= len(others) and all(map(_argument_may_become, others, rest))
                    for rest in rests
                )
                yield from (index for index, fit in zip(rests.values(), fits, strict=True) if fit)


def _argument_may_become(word: str, token: str) -> bool:
    return word == "*" or may_become(word, token)


def _comes_to(
    command: CommandWords,
    start: int,
    spelling: Spelling,
    pattern: int,
    tokens: tuple[str, ...],
    *,
    between: tuple[bool, bool],
) -> bool:
    """Whether the words from ``start`` on, with options passed over, are the tokens of a pattern in their order.

    Other operands may stand ``between`` them: before the first token, and before the others. But an option of a pattern
    has to stand right behind the operand before it.
    """
    words, todo = command.words, [(start, 0, False)]
    tokens = tokens[1:] if len(tokens) > 1 and tokens[0] in spelling.groups else tokens
    while todo:
        pos, token, passed = todo.pop()
        if token == len(tokens):
            return True
        if pos >= len(words) or (pattern, pos, token, passed) in command.looked_at:
            continue
        command.looked_at.add((pattern, pos, token, passed))
        word, wanted = _folded(words[pos]), tokens[token]
        is_option = word[:1] in ("-", "+") and len(word) > 1
        if (
            word == wanted
            if wanted[:1] == "-"
            else not is_option and spelling.means(word, wanted, token)
        ):
            todo += [] if passed and wanted[:1] == "-" else [(pos + 1, token + 1, False)]
        if is_option:
            todo += [(pos + width, token, passed) for width in spelling.passed(words[pos])]
        elif between[token > 0] or (
            token == 0 and not spelling.groups.isdisjoint({word, f"{word}/{wanted}"})
        ):
            todo.append((pos + 1, token, True))
    return False


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


def _folded(word: str) -> str:
    """A word in lower case, a path in its shortest spelling."""
    return (
        posixpath.normpath(_SLASHES.sub("/", word)).casefold() if "/" in word else word.casefold()
    )


def _base(word: str) -> str:
    return word.rsplit("/", 1)[-1]


class Spelling(Struct, frozen=True):
    """Words that may stand between and instead of those that tell a program what to do."""

    options: KnownOptions = field(default_factory=KnownOptions)
    first_decides: bool = False
    """Its first operand is a subcommand, so that those behind it are none; else each operand counts for itself."""
    abbreviated: int = 0
    """How many of the first operands may be abbreviated."""
    names: frozenset[str] = frozenset()
    """The subcommands, so that one is not taken for the abbreviation of another."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    groups: frozenset[str] = frozenset()
    """Words that may stand before a subcommand: ``docker image push`` is ``docker push``."""
    # "compose/push" may stand only before "push"
    targets: bool = False
    """Each operand is a target, maybe with a path or arguments: ``make ./x``, ``gradle :app:x``, ``rake x[y]``."""

    def passed(self, word: str) -> tuple[int, ...]:
        """How many words to pass over for an option, itself included: both where its value is not known of."""
        if word[:1] == "+" or word == "--" or "=" in word:
            return (1,)
        taken = self.options.taken(word)
        return (taken,) if taken == 1 or (taken and word not in self.options.flags) else (1, 2)

    def means(self, word: str, token: str, place: int) -> bool:
        """Whether an operand is this token of a pattern, at its place behind the program, in lower case."""
        if self.targets and token != word:
            word = _AROUND_TARGET.sub("", word)
        if word == token:
            return True
        if (
            place == 0
            and self.aliases
            and self.aliases.get(word, word) == self.aliases.get(token, token)
        ):
            return True
        return (
            place < self.abbreviated
            and word not in ("", *self.names, *self.aliases)
            and token.startswith(word)
        )


@lru_cache(maxsize=256)
def spelling_of(name: str) -> Spelling:
    found = program_named(program(name))
    options = KnownOptions.of(found.rows, takes=True)
    paths = chain.from_iterable(found.words(key) for key in _SUBCOMMANDS[:3])
    names = frozenset(path.partition("/")[0] for path in paths)
    abbreviated = max((row.abbreviates for row in found.rows), default=0)
    groups = found.names("groups")
    targets = "targets" in found.kind
    return Spelling(
        options, _first_decides(found), abbreviated, names, _aliases(found), groups, targets
    )


def _first_decides(found: KnownProgram) -> bool:
    if "targets" in found.kind:
        return False
    kinds = {"subcommands", "interpreter", "runs_file", "python"}
    return (
        bool(found.below)
        or starts_commands(found)
        or any(map(found.says, _SUBCOMMANDS))
        or bool(kinds & found.kind)
    )


def _aliases(found: KnownProgram) -> dict[str, str]:
    found_aliases: dict[str, str] = {}
    for pair in found.words("aliases"):
        name, _, others = pair.partition("=")
        found_aliases.update(dict.fromkeys(others.split(","), name))
    return found_aliases
