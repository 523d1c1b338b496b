"""Blocked patterns, and whether the words of a command begin with one in any spelling."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain

from msgspec import Struct, field

from forge_cli.bashrules.block.expansions import Scattered
from forge_cli.bashrules.block.quoting import could_be, expands, is_glob, may_become, restore
from forge_cli.bashrules.programs.git import GitWords
from forge_cli.bashrules.programs.options import KnownOptions
from forge_cli.bashrules.programs.subcommands import starts_commands
from forge_cli.bashrules.programs.table import KnownProgram, program, program_named, table_index

_SLASHES = re.compile("//+")
_MAX_GLOB_LENGTH = 64
"""A longer glob in place of a program counts as every program, because no person types it."""
_MAX_EXPANDING = 1000
"""With more expanding words than this in one line, any pattern counts as found."""
_MAX_GIT_WORDS = 16
"""The number of words after ``git-push`` that are compared with patterns."""

_SUBCOMMAND_KEYS = ("known", "never", "spelled", "tools", "abbreviates")
_AROUND_TARGET = re.compile(r"^(?:[.]/+)+|^.*:|\[.*\]$", re.DOTALL)


class CommandWords(GitWords):
    """The words of a command, with the comparisons that have already failed.

    Several commands can start among the same words. Sharing the failed comparisons keeps the
    search linear.
    """

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__(words)
        self.words = words
        self.looked_at: set[tuple[int, int, int, bool]] = set()


class Patterns:
    """Patterns indexed by the name of their program."""

    def __init__(self, patterns: Sequence[tuple[str, ...]]) -> None:
        self._by_name: dict[str, dict[tuple[str, ...], int]] = {}
        for index, tokens in enumerate(patterns):
            folded = tuple(map(_folded, tokens))
            by_rest = self._by_name.setdefault(_base(folded[0]), {})
            by_rest.setdefault(folded[1:], index)
        self._longest = max(map(len, patterns), default=1)

    @cached_property
    def tokens(self) -> frozenset[str]:
        """The tokens of all patterns, in lower case."""
        rests = chain.from_iterable(self._by_name.values())
        return frozenset(self._by_name).union(*rests)

    @property
    def any(self) -> int:
        """The index of some pattern, for input that could match any of them."""
        return next(iter(next(iter(self._by_name.values())).values()))

    def match(self, command: CommandWords, start: int, *, structured: bool = True) -> int | None:
        """Return the index of the pattern that the words from ``start`` on match.

        If not ``structured``, the words are those of bare text, and other commands may follow.
        """
        words = command.words
        name = _base(words[start].casefold())
        # git installs its subcommands as programs too: /usr/lib/git-core/git-push is `git push`
        if name.startswith("git-") and "git" in self._by_name:
            inner = ["git", name.removeprefix("git-")]
            inner += words[start + 1 : start + _MAX_GIT_WORDS]
            if (found := self.match(CommandWords(inner), 0)) is not None:
                return found
        rests = self._by_name.get(name)
        if not rests:
            return None
        spelling = spelling_of(name)
        # `make clean all`: every operand may be the one that the pattern names. In bare text,
        # only known programs get that benefit, or prose would match patterns all the time.
        each_counts = not spelling.first_decides and (structured or name in table_index())
        between = (each_counts, each_counts or structured)
        for rest, index in rests.items():
            if _has_tokens(command, start + 1, spelling, index, rest, between=between):
                return index
        return None

    def match_anywhere(self, words: Sequence[str]) -> tuple[int, int] | None:
        """Return a pattern that the words match at some place, and that place."""
        command = CommandWords(words)
        known = {word for word in set(words) if self._knows(word)}
        for start, word in enumerate(words):
            if word not in known:
                continue
            pattern = self.match(command, start, structured=False)
            if pattern is not None:
                return pattern, start
        return None

    def match_glob(self, raw: Sequence[str], start: int, git: GitWords) -> int | None:
        """Return the pattern that the words could begin with once globs and ``~`` are expanded."""
        first = _base(raw[start].casefold())
        if first.startswith("git-"):
            words = ["git", first[4:], *raw[start + 1 : start + self._longest]]
            return self.match_glob(words, 0, GitWords(()))
        head = [first] if is_glob(first) else []
        for name in self._possible_names(first):
            places = {start + 1}
            if name == "git":
                places.add(git.subcommand(start))
            for rest, index in self._by_name[name].items():
                # A glob in place of the program may find several files: the second is its operand.
                tokens = (name, *rest) if head else rest
                for place in places:
                    if _could_begin([*head, *raw[place : place + len(rest)]], tokens):
                        return index
        return None

    def _possible_names(self, first: str) -> list[str]:
        """Return the programs of patterns that a first word, which may be a glob, can become."""
        if not is_glob(first):
            name = restore(first)
            return [name] if name in self._by_name else []
        if len(first) > _MAX_GLOB_LENGTH:
            return list(self._by_name)
        return [name for name in self._by_name if could_be(first, name)]

    def match_scattered(self, words: Scattered) -> tuple[int, tuple[str, ...]] | None:
        """Return a pattern whose tokens could all be among these words, with the tokens."""
        for name, rests in self._by_name.items():
            if not words.may_hold(name):
                continue
            for rest, index in rests.items():
                if all(map(words.may_hold, rest)):
                    return index, (name, *rest)
        return None

    def match_expanding(self, words: Sequence[str]) -> tuple[int, int] | None:
        """Return a pattern that words with expansions could match at some place, and the place."""
        expanding = set(filter(expands, set(words)))
        seen: dict[tuple[str, ...], int] = {}
        for place, word in enumerate(words):
            if word not in expanding:
                continue
            for start in range(max(0, place + 1 - self._longest), place + 1):
                seen.setdefault(tuple(words[start : start + self._longest]), start)
                if len(seen) > _MAX_EXPANDING:
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
            if not may_become(_base(first), name):
                continue
            for rest, index in rests.items():
                if len(rest) <= len(others) and all(map(_argument_may_become, others, rest)):
                    yield index


def _argument_may_become(word: str, token: str) -> bool:
    return word == "*" or may_become(word, token)


def _has_tokens(
    command: CommandWords,
    start: int,
    spelling: Spelling,
    pattern: int,
    tokens: tuple[str, ...],
    *,
    between: tuple[bool, bool],
) -> bool:
    """Return True if the words from ``start`` on have the tokens of a pattern in this order.

    Options are passed over. ``between`` says whether other operands may come before the first
    token, and before the later ones. An option of a pattern has to come right after the operand
    before it.
    """
    words = command.words
    if len(tokens) > 1 and tokens[0] in spelling.groups:
        tokens = tokens[1:]
    # A walk over (word, token) pairs instead of recursion: a line can have thousands of words.
    todo = [(start, 0, False)]
    while todo:
        pos, token, passed = todo.pop()
        if token == len(tokens):
            return True
        if pos >= len(words) or (pattern, pos, token, passed) in command.looked_at:
            continue
        command.looked_at.add((pattern, pos, token, passed))
        word = _folded(words[pos])
        wanted = tokens[token]
        is_option = word[:1] in ("-", "+") and len(word) > 1
        if wanted[:1] == "-":
            is_token = word == wanted and not passed
        else:
            is_token = not is_option and spelling.means(word, wanted, token)
        if is_token:
            todo.append((pos + 1, token + 1, False))
        if is_option:
            # Both widths of an unknown option: its value may be the next word, or it has none.
            todo += [(pos + width, token, passed) for width in spelling.passed(words[pos])]
        elif between[token > 0] or (token == 0 and spelling.is_group(word, wanted)):
            todo.append((pos + 1, token, True))
    return False


def _could_begin(words: Sequence[str], tokens: tuple[str, ...]) -> bool:
    """Return True if the words could begin with the tokens; a glob may become several words."""
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
    """Return the word in lower case, a path in its shortest spelling."""
    if "/" in word:
        word = posixpath.normpath(_SLASHES.sub("/", word))
    return word.casefold()


def _base(word: str) -> str:
    return word.rsplit("/", 1)[-1]


class Spelling(Struct, frozen=True):
    """Other ways to write the subcommands and operands of a program."""

    options: KnownOptions = field(default_factory=KnownOptions)
    first_decides: bool = False
    """Its first operand is a subcommand; otherwise every operand counts for itself."""
    abbreviated: int = 0
    """How many of the first operands may be abbreviated."""
    names: frozenset[str] = frozenset()
    """The subcommands, none of which is an abbreviation of another."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    groups: frozenset[str] = frozenset()
    """Words that may come before a subcommand: ``docker image push`` is ``docker push``.

    ``compose/push`` allows ``compose`` before ``push`` only.
    """
    targets: bool = False
    """Operands are targets, with a path or arguments: ``make ./x``, ``gradle :app:x``."""

    def passed(self, word: str) -> tuple[int, ...]:
        """Return how many words an option takes, itself included; both if that is unknown."""
        if word[:1] == "+" or word == "--" or "=" in word:
            return (1,)
        taken = self.options.taken(word)
        if taken == 1 or (taken and word not in self.options.flags):
            return (taken,)
        return (1, 2)

    def is_group(self, word: str, token: str) -> bool:
        """Return True if the operand ``word`` may come before the subcommand ``token``."""
        return word in self.groups or f"{word}/{token}" in self.groups

    def means(self, word: str, token: str, place: int) -> bool:
        """Return True if the operand at ``place`` after the program means this token."""
        if self.targets and token != word:
            word = _AROUND_TARGET.sub("", word)
        if word == token:
            return True
        aliases = self.aliases
        if place == 0 and aliases and aliases.get(word, word) == aliases.get(token, token):
            return True
        if place >= self.abbreviated or word in ("", *self.names, *self.aliases):
            return False
        return token.startswith(word)


@lru_cache(maxsize=256)
def spelling_of(name: str) -> Spelling:
    """Return how the words of a program, by its name, may be written."""
    found = program_named(program(name))
    paths = chain.from_iterable(found.words(key) for key in _SUBCOMMAND_KEYS[:3])
    return Spelling(
        options=KnownOptions.of(found.rows, takes=True),
        first_decides=_first_decides(found),
        abbreviated=max((row.abbreviates for row in found.rows), default=0),
        names=frozenset(path.partition("/")[0] for path in paths),
        aliases=_aliases(found),
        groups=found.names("groups"),
        targets="targets" in found.kind,
    )


def _first_decides(found: KnownProgram) -> bool:
    if "targets" in found.kind:
        return False
    if found.below or starts_commands(found) or any(map(found.says, _SUBCOMMAND_KEYS)):
        return True
    return not found.kind.isdisjoint({"subcommands", "interpreter", "runs_file", "python"})


def _aliases(found: KnownProgram) -> dict[str, str]:
    found_aliases: dict[str, str] = {}
    for pair in found.words("aliases"):
        name, _, others = pair.partition("=")
        found_aliases.update(dict.fromkeys(others.split(","), name))
    return found_aliases
