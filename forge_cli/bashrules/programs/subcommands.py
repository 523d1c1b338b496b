"""Programs and subcommands that start other programs, and where the inner command begins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from msgspec import Struct, field

from forge_cli.bashrules.programs.options import KnownOptions
from forge_cli.bashrules.programs.table import KnownProgram, ProgramRow, program, program_named

_MAX_LOOKED_AT = 64
"""Words between a program and its subcommand; no real command has more."""

ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^]]*\])?\+?=")
FIND_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
Walked = set[tuple[int, int, bool]]
"""Visited places, with the operands still to come, and whether an option comes before."""

_IN_ENVIRONMENT = re.compile(r"[\w.-]+:[\w.-]+")
"""``hatch run test:pytest``."""


def subcommands(words: Sequence[str], start: int) -> Iterator[int]:
    """Yield the places where the subcommand of ``words[start]`` may be, after its options.

    Any option may take a value. After too many options, the subcommand may be anywhere: the last
    place is then the end of the words.
    """
    after_option = False
    for pos in range(start + 1, min(len(words), start + 1 + _MAX_LOOKED_AT)):
        word = words[pos]
        if word.startswith(("-", "+")):
            after_option = word[0] == "-" and word != "--" and "=" not in word
            continue
        yield pos
        if not after_option:
            return
        after_option = False
    if len(words) > start + 1 + _MAX_LOOKED_AT:
        yield len(words)


def path_ends(
    words: Sequence[str], start: int, paths: Iterable[str], *, abbreviated: bool = False
) -> Iterator[int]:
    """Yield the ends of paths of subcommands such as ``compose/exec``, with options between."""
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
        is_end = False
        longer: list[list[str]] = []
        for path in paths:
            if path[0] == word or (abbreviated and path[0].startswith(word)):
                if path[1:]:
                    longer.append(path[1:])
                else:
                    is_end = True
        if is_end:
            yield pos
        if longer:
            yield from _ends(words, pos, longer, abbreviated=abbreviated)


class SubcommandRunner(Struct, frozen=True):
    """Paths of subcommands that start a command, and the words between a path and the command."""

    paths: frozenset[str]
    last: frozenset[str]
    """The last words of these paths."""
    wrapper: Wrapper
    abbreviated: bool = False

    def inner(self, words: Sequence[str], start: int) -> int | None:
        """Return the latest start of the command inside; ``start`` if none, None if unknown."""
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
        """Return True if a path may end with this word."""
        if word in self.last:
            return True
        return self.abbreviated and any(last.startswith(word) for last in self.last)


@lru_cache(maxsize=4096)
def runner_named(name: str) -> SubcommandRunner | None:
    """Return the subcommands of a program that start a command, if any."""
    found = program_named(name)
    rows = [row for row in found.below if row.runs is not None]
    if not rows:
        return None
    paths = frozenset[str]().union(*(row.below for row in rows))
    last = frozenset(path.rpartition("/")[2] for path in paths)
    return SubcommandRunner(paths, last, Wrapper.of(rows[0]), found.says("abbreviates"))


class KnownPaths(Struct, frozen=True):
    """Paths of subcommands that a rule covers without naming them, and options between them.

    All others ask, also unknown ones: ``docker compose up`` and ``kubectl apply`` start what a
    file says, ``docker cp`` and ``podman save`` write files, and a plugin can have any name.
    """

    paths: frozenset[str]
    options: KnownOptions
    groups: frozenset[str]
    """The beginnings of longer paths."""

    def other(self, words: Sequence[str], reach: int) -> str | None:
        """Return the first option or path that is unknown and not in a rule of ``reach`` tokens."""
        end, path = self._path(words, reach)
        if end < reach or path in self.paths or path in self.groups:
            return None
        return path if path.startswith("-") else path.replace("/", " ")

    def end(self, words: Sequence[str]) -> int:
        """Return the place of the word that ends the path; 0 if there is none."""
        return self._path(words, len(words))[0]

    def _path(self, words: Sequence[str], reach: int) -> tuple[int, str]:
        """Return the end of the path, and the path or the unknown option in its place."""
        path = ""
        end = 0
        pos = 1
        while pos < len(words) and (path == "" or path in self.groups) and path not in self.paths:
            word = words[pos]
            if word.startswith(("-", "+")) and word != "--":
                after = "".join(words[pos + 1 : pos + 2])
                taken = 1 if word.startswith("+") else self.options.taken(word, after)
                if taken is None and pos >= reach:
                    return pos, word
                pos += taken or 1
                continue
            path = f"{path}/{word}" if path else word
            end = pos
            pos += 1
        return end, path


@lru_cache(maxsize=256)
def known_paths(name: str) -> KnownPaths | None:
    """Return the subcommands of a program, if all of them are known."""
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
    """Return why a rule of ``reach`` tokens does not cover the subcommand among these words."""
    found = program_named(name)
    if end := next(path_ends(words, 0, found.words("never")), None):
        subcommand = "".join(words[end : end + 1])
        return f"{name} {subcommand} starts other programs or configures what is started"
    for end in path_ends(words, 0, found.words("spelled")):
        if end >= reach:
            form = " ".join(words[1 : end + 1])
            return f"{name} {form} starts, configures, sends or prints more; a rule can name it"
    known = known_paths(name)
    if known is None:
        return None
    only_known = found.says("only_known")
    other = known.other(words, 0 if only_known else reach)
    if not other:
        return None
    if other.startswith("-"):
        return f"{other} changes what {name} does or starts"
    if only_known:
        return f"{name} {other} is not known to start nothing else"
    return f"{name} {other} may run a file or a plugin, or write files here; a rule can name it"


class Wrapper(Struct, frozen=True):
    """A program that starts the command among its words, after ``operands`` of its own."""

    options: KnownOptions = field(default_factory=KnownOptions)
    operands: int = 0
    assigns: bool = False
    reparses: bool = False
    """True if it joins the words and passes them to a shell."""
    feeds: bool = False
    """True if it adds words that come from elsewhere."""
    command: bool = False
    """True if the word itself is the command, as in ``k3s kubectl get``."""

    @classmethod
    def of(cls, row: ProgramRow) -> Wrapper:
        return cls(KnownOptions.of((row,)), **(row.runs or {}))

    def inner(self, words: Sequence[str], start: int) -> int | None:
        """Return the start of the command inside; None if there is none or it is uncertain."""
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
        """Yield every place where the command inside could start, however options are read.

        Skip the places in ``walked``: an earlier walk over the same words led on from there.
        """
        walked = set() if walked is None else walked
        own = self.operands
        after_option = False
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
                # behind an inner wrapper, that wrapper's own walk goes on
                if wrapper_named(program(word)) or not (own or after_option):
                    return
                own -= not after_option
                after_option = False


@lru_cache(maxsize=4096)
def wrapper_named(name: str) -> Wrapper | None:
    """Return the wrapper of this name, unless it may start its command at any word."""
    return next((Wrapper.of(row) for row in program_named(name).rows if row.runs is not None), None)


def starts_commands(found: KnownProgram) -> bool:
    """Return True if a program exists to start the command or script among its words."""
    if not found.kind.isdisjoint({"shell", "starter"}):
        return True
    return any(row.runs is not None for row in found.rows)


def named_tool(words: Sequence[str]) -> tuple[int, str] | None:
    """Return the place and the name of the tool that a program would start."""
    found = program_named(program(words[0]))
    tools = found.names("tools")
    if _IN_ENVIRONMENT.fullmatch(words[0]):
        return 0, words[0].rpartition(":")[2]
    if not tools:
        return None
    if "modules" in found.kind:
        module = python_module(words) if "python" in found.kind else _taken_module(words)
        if module is None or _tool(module[1]) not in tools:
            return None
        return module[0], _tool(module[1])
    places = list(subcommands(words, 0))
    for pos in tuple(places):
        if list(words[pos : pos + 1]) in (["run"], ["run-script"]):
            places += subcommands(words, pos)
    for pos in places:
        if pos < len(words) and words[pos] in tools:
            return pos, words[pos]
    return None


def python_module(words: Sequence[str]) -> tuple[int, str] | None:
    """Return the module that ``python -m`` starts, and the place of the word that ends with it."""
    pos = 1
    while pos < len(words) and words[pos].startswith("-") and words[pos] != "-":
        word = words[pos]
        for place, letter in enumerate(word[1:], 2):
            if letter == "m" and not word.startswith("--"):
                if word[place:]:
                    return pos, word[place:]
                return (pos + 1, words[pos + 1]) if pos + 1 < len(words) else None
            if letter in "WX":
                pos += place == len(word)  # the value is the next word
                break
        pos += 1
    return None


def _taken_module(words: Sequence[str]) -> tuple[int, str] | None:
    """Return the module that another program starts by ``-m``, and the place of its word."""
    for pos, word in enumerate(words[1:-1], 1):
        if word in ("-m", "--module"):
            return pos + 1, words[pos + 1]
        if word.startswith(("-m", "--module=")):
            return pos, word.removeprefix("--module=").removeprefix("-m")
    return None


def _tool(module: str) -> str:
    """Return the tool that a module belongs to: ``pip.__main__`` is pip."""
    if module.lower() == "py.test":
        return "pytest"
    return module.partition(".")[0].lower()
