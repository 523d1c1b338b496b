"""Programs and subcommands that start other programs: how words lead to the command or the tool inside."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from msgspec import Struct, field

from forge_cli.bashrules.programs.options import KnownOptions
from forge_cli.bashrules.programs.table import KnownProgram, ProgramRow, program, program_named

_LOOKED_AT = 64
"""Words between a program and its subcommand; no command has more."""

ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^]]*\])?\+?=")
FIND_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
Walked = set[tuple[int, int, bool]]
"""Places in the words, with how many operands are still to come, and whether an option stands before."""

_IN_ENVIRONMENT = re.compile(r"[\w.-]+:[\w.-]+")
"""``hatch run test:pytest``."""


def subcommands(words: Sequence[str], start: int) -> Iterator[int]:
    """Places of the subcommand of ``words[start]``: behind its options, any of which may take a value.

    Behind too many options it may stand anywhere: the last place is then the end of the words.
    """
    after_option = False
    for pos in range(start + 1, min(len(words), start + 1 + _LOOKED_AT)):
        word = words[pos]
        if word.startswith(("-", "+")):
            after_option = word[0] == "-" and word != "--" and "=" not in word
            continue
        yield pos
        if not after_option:
            return
        after_option = False
    if len(words) > start + 1 + _LOOKED_AT:
        yield len(words)


def path_ends(
    words: Sequence[str], start: int, paths: Iterable[str], *, abbreviated: bool = False
) -> Iterator[int]:
    """Ends of a path of subcommands such as ``compose/exec``, with options between its parts."""
    split = [path.split("/") for path in paths]
    return _ends(words, start, split, abbreviated=abbreviated)


def _ends(
    words: Sequence[str], start: int, paths: list[list[str]], *, abbreviated: bool
) -> Iterator[int]:
    for pos in subcommands(words, start):
        if pos == len(words):
            yield pos
            return
        word = words[pos]
        rests = [
            path[1:]
            for path in paths
            if path[0] == word or (abbreviated and path[0].startswith(word))
        ]
        if [] in rests:
            yield pos
        if longer := [rest for rest in rests if rest]:
            yield from _ends(words, pos, longer, abbreviated=abbreviated)


class SubcommandRunner(Struct, frozen=True):
    """The paths of subcommands that start a command, and what stands between them and that command."""

    paths: frozenset[str]
    last: frozenset[str]
    """The last words of these paths."""
    wrapper: Wrapper
    abbreviated: bool = False

    def inner(self, words: Sequence[str], start: int) -> int | None:
        """The latest start of the command inside; ``start`` if there is none, None if that cannot be told."""
        found = start
        for end in path_ends(words, start, self.paths, abbreviated=self.abbreviated):
            inner = self._behind(words, end)
            if inner is None:
                return None
            found = max(found, inner)
        return found

    def _behind(self, words: Sequence[str], end: int) -> int | None:
        if self.wrapper.command:
            return end
        inner = self.wrapper.inner(words, end)
        if inner is None and "--" in words[end:]:
            inner = list(words).index("--", end) + 1
        return inner if inner is not None and inner < len(words) else None

    def may_end_at(self, word: str) -> bool:
        """Whether a path may end with this word, wherever it stands."""
        return word in self.last or (
            self.abbreviated and any(last.startswith(word) for last in self.last)
        )


@lru_cache(maxsize=4096)
def runner_named(name: str) -> SubcommandRunner | None:
    """The subcommands of a program that start a command, if it has any."""
    found = program_named(name)
    rows = [row for row in found.below if row.runs is not None]
    if not rows:
        return None
    paths = frozenset[str]().union(*(row.below for row in rows))
    last = frozenset(path.rpartition("/")[2] for path in paths)
    return SubcommandRunner(paths, last, Wrapper.of(rows[0]), found.says("abbreviates"))


class KnownPaths(Struct, frozen=True):
    """The paths of subcommands that a rule covers without spelling them, and the options that may stand between.

    All others ask, also those that are not known: ``docker compose up`` and ``kubectl apply`` start what a file says,
    ``docker cp`` and ``podman save`` write files, and any other name may be that of a plugin.
    """

    paths: frozenset[str]
    options: KnownOptions
    groups: frozenset[str]
    """The beginnings of longer paths."""

    def other(self, words: Sequence[str], reach: int) -> str | None:
        """The option or path of subcommands that is not one of these, and that no rule of ``reach`` tokens spells."""
        end, path = self._path(words, reach)
        if end < reach or path in self.paths or path in self.groups:
            return None
        return path if path.startswith("-") else path.replace("/", " ")

    def end(self, words: Sequence[str]) -> int:
        """The place of the word that ends the path; 0 where there is none."""
        return self._path(words, len(words))[0]

    def _path(self, words: Sequence[str], reach: int) -> tuple[int, str]:
        """The end of the path, and the path; an unknown option behind the words of a rule stands for the path."""
        path, end, pos = "", 0, 1
        while pos < len(words) and (path == "" or path in self.groups) and path not in self.paths:
            word = words[pos]
            if word.startswith(("-", "+")) and word != "--":
                after = "".join(words[pos + 1 : pos + 2])
                taken = 1 if word.startswith("+") else self.options.taken(word, after)
                if taken is None and pos >= reach:
                    return pos, word
                pos += taken or 1
                continue
            path, end, pos = f"{path}/{word}" if path else word, pos, pos + 1
        return end, path


@lru_cache(maxsize=256)
def known_paths(name: str) -> KnownPaths | None:
    """The subcommands that a program has, where all of them are known."""
    found = program_named(name)
    if not found.says("known"):
        return None
    paths = found.names("known")
    groups: set[str] = set()
    for path in paths:
        while path := path.rpartition("/")[0]:
            groups.add(path)
    return KnownPaths(paths, KnownOptions.of(found.rows), frozenset(groups))


def subcommand_hazard(name: str, words: Sequence[str], reach: int) -> str | None:
    """Why a rule of ``reach`` tokens does not cover the subcommand among these words."""
    found = program_named(name)
    if end := next(path_ends(words, 0, found.words("never")), None):
        return f"{name} {''.join(words[end : end + 1])} starts other programs, or sets up what is started"
    for end in path_ends(words, 0, found.words("spelled")):
        if end >= reach:
            return f"{name} {' '.join(words[1 : end + 1])} starts, sets up, sends or prints more; a rule can spell it"
    known = known_paths(name)
    only_known = found.says("only_known")
    if known is None:
        return None
    other = known.other(words, 0 if only_known else reach)
    if other and other.startswith("-"):
        return f"{other} changes what {name} does or starts"
    if other and only_known:
        return f"{name} {other} is none of its commands that are known to start nothing else"
    if other:
        return f"{name} {other} may start what a file or a plugin says, or write files here; a rule can spell it"
    return None


class Wrapper(Struct, frozen=True):
    """A program that starts the command among its words; ``operands`` are its own words before that."""

    options: KnownOptions = field(default_factory=KnownOptions)
    operands: int = 0
    assigns: bool = False
    reparses: bool = False
    """It joins the words and hands them to a shell."""
    feeds: bool = False
    """It adds words that come from elsewhere."""
    command: bool = False
    """The word itself is the command, as ``k3s kubectl get``."""

    @classmethod
    def of(cls, row: ProgramRow) -> Wrapper:
        return cls(KnownOptions.of((row,)), **(row.runs or {}))

    def inner(self, words: Sequence[str], start: int) -> int | None:
        """The start of the command inside; None when there is none, or an option is not known well enough to tell."""
        pos = start + 1
        while pos < len(words):
            word = words[pos]
            if word == "--":
                pos += 1
                break
            if self.assigns and ASSIGNMENT.match(word):
                pos += 1
                continue
            if not word.startswith("-"):
                break
            taken = self.options.taken(word)
            if taken is None:
                return None
            pos += taken
        pos += self.operands
        return pos if pos < len(words) and not words[pos].startswith("-") else None

    def candidates(
        self, words: Sequence[str], start: int, walked: Walked | None = None
    ) -> Iterator[int]:
        """Every place where the command inside could start, however the options are to be understood.

        What an earlier walk over the same words has ``walked`` is not walked again: it led to the same places.
        """
        walked = set() if walked is None else walked
        own, after_option = self.operands, False
        for pos in range(start + 1, len(words)):
            if (pos, own, after_option) in walked:
                return
            walked.add((pos, own, after_option))
            word = words[pos]
            if word.startswith("-"):
                after_option = self.options.taken(word) != 1 and word != "--" and "=" not in word
            elif self.assigns and "=" in word:
                after_option = False
            elif not ASSIGNMENT.match(word):
                yield pos
                if wrapper_named(program(word)) or not (own or after_option):
                    return
                own -= not after_option
                after_option = False


@lru_cache(maxsize=4096)
def wrapper_named(name: str) -> Wrapper | None:
    """The wrapper of that name; None for what is none, or one that may start its command at any word."""
    return next((Wrapper.of(row) for row in program_named(name).rows if row.runs is not None), None)


def starts_commands(found: KnownProgram) -> bool:
    """Whether a program is there to start the command among its words, or the script that it is given."""
    return not found.kind.isdisjoint({"shell", "starter"}) or any(
        row.runs is not None for row in found.rows
    )


def named_tool(words: Sequence[str]) -> tuple[int, str] | None:
    """The tool that a program is told to start by name, and where it stands."""
    found = program_named(program(words[0]))
    tools = found.names("tools")
    if _IN_ENVIRONMENT.fullmatch(words[0]):
        return 0, words[0].rpartition(":")[2]
    if not tools:
        return None
    if "modules" in found.kind:
        module = python_module(words) if "python" in found.kind else _taken_module(words)
        return (module[0], _tool(module[1])) if module and _tool(module[1]) in tools else None
    places = list(subcommands(words, 0))
    for pos in tuple(places):
        if list(words[pos : pos + 1]) in (["run"], ["run-script"]):
            places += subcommands(words, pos)
    return next(
        ((pos, words[pos]) for pos in places if pos < len(words) and words[pos] in tools), None
    )


def python_module(words: Sequence[str]) -> tuple[int, str] | None:
    """The module that ``python -m`` starts, and the place of the word that ends with its name."""
    pos = 1
    while pos < len(words) and words[pos].startswith("-") and words[pos] != "-":
        word = words[pos]
        for place, letter in enumerate(word[1:], 2):
            if letter == "m" and not word.startswith("--"):
                if word[place:]:
                    return pos, word[place:]
                return (pos + 1, words[pos + 1]) if pos + 1 < len(words) else None
            if letter in "WX":
                pos += place == len(word)
                break
        pos += 1
    return None


def _taken_module(words: Sequence[str]) -> tuple[int, str] | None:
    """The same for programs that take ``-m`` among options of their own."""
    for pos, word in enumerate(words[1:-1], 1):
        if word in ("-m", "--module"):
            return pos + 1, words[pos + 1]
        if word.startswith(("-m", "--module=")):
            return pos, word.removeprefix("--module=").removeprefix("-m")
    return None


def _tool(module: str) -> str:
    """``pip.__main__`` and ``pip._internal`` are pip."""
    return module.partition(".")[0].lower() if module.lower() != "py.test" else "pytest"
