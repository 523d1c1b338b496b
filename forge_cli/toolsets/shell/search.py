"""The search for blocked commands: every reading of a line, scripts within scripts, and if in doubt the bare text."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property

from forge_cli.toolsets.shell.frames import Found, Scanned
from forge_cli.toolsets.shell.git import GitWords
from forge_cli.toolsets.shell.quoting import ansi_c, restore
from forge_cli.toolsets.shell.scan import scan
from forge_cli.toolsets.shell.unwrap import unwrap

_LEVELS = 8
"""Scripts nested deeper than this are not taken apart: their bare text is searched."""
_GLOB_LENGTH = 64
"""A longer glob in place of a program is no command that anybody means."""
_STARS = re.compile(r"\*+")
_PRINTS = frozenset({"echo", "printf", "yes", "print"})
_GLOB = re.compile(r"[*?[]")

_JOINED_LINES = re.compile(r"\\\n")
_ANSI_QUOTED = re.compile(r"\$'([^'\\]*(?:\\.[^'\\]*)*)'", re.DOTALL)
_QUOTES = re.compile(r"[\"'\\]")
_BETWEEN_WORDS = re.compile(r"(?:\$\{\w+:?[-+?]|[\s;&|()<>{}`$=,!*?\[\]])+")


class Patterns:
    """Blocked patterns, found by the name of the program: no path, no case, git's global options passed over."""

    def __init__(self, patterns: Sequence[tuple[str, ...]]) -> None:
        self._by_name: dict[str, list[tuple[tuple[str, ...], int]]] = {}
        for index, tokens in enumerate(patterns):
            if tokens:
                folded = tuple(token.casefold() for token in tokens)
                self._by_name.setdefault(_base(folded[0]), []).append((folded[1:], index))

    def match(self, words: Sequence[str], start: int, git: GitWords) -> int | None:
        """The first pattern that the words from ``start`` on begin with."""
        name = _base(words[start].casefold())
        found = self._match(name, words, start + 1)
        if found is None and name == "git" and "git" in self._by_name:
            found = self._match("git", words, git.subcommand(start))
        if found is None and name.startswith("git-") and "git" in self._by_name:
            found = self._match("git", [name[4:], *words[start + 1 : start + 16]], 0)
        return found

    def match_glob(self, name: str, words: Sequence[str], start: int) -> int | None:
        """The same for a name that is a glob: whatever it could stand for."""
        glob = restore(_STARS.sub("*", _base(name.casefold())))
        if len(glob) > _GLOB_LENGTH:
            return next(iter(self._by_name.values()))[0][1]
        hits = (self._match(known, words, start + 1) for known in self._by_name if fnmatchcase(known, glob))
        return next((hit for hit in hits if hit is not None), None)

    def _match(self, name: str, words: Sequence[str], after: int) -> int | None:
        for rest, index in self._by_name.get(name, ()):
            if all(map(_same, rest, words[after : after + len(rest)])) and after + len(rest) <= len(words):
                return index
        return None


def _base(word: str) -> str:
    return word.rsplit("/", 1)[-1]


def _same(token: str, word: str) -> bool:
    return token == word.casefold()


@dataclass(frozen=True)
class Hit:
    """A command that a blocked pattern matches."""

    pattern: int
    words: tuple[str, ...]
    nested: bool


@dataclass(frozen=True)
class _Job:
    text: str
    level: int
    body: bool = False


class Search:
    """One line, searched once."""

    def __init__(self, line: str, patterns: Patterns) -> None:
        self._line = line
        self._patterns = patterns
        self._jobs = deque([_Job(line, 0)])
        self._queued = {(line, False)}
        self._data: list[str] = []
        self._reads_script = False

    def hit(self) -> Hit | None:
        """The first blocked command, if there is any."""
        while self._jobs:
            job = self._jobs.popleft()
            found = self._search_text(job.text) if job.level > _LEVELS else self._search(job)
            if found:
                return found
            if not self._jobs and self._reads_script:
                self._queue(self._data, job.level + 1)
        return None

    @cached_property
    def _scanned(self) -> Scanned:
        return scan(self._line)

    def commands(self) -> list[Found]:
        """The commands that stand in the line itself, for people to see."""
        return [found for found in self._scanned.found if found.literal]

    def _queue(self, scripts: Sequence[str], level: int, *, body: bool = False) -> None:
        for script in scripts:
            if (script, body) not in self._queued:
                self._queued.add((script, body))
                self._jobs.append(_Job(script, level, body))

    def _search(self, job: _Job) -> Hit | None:
        scanned = scan(job.text, body=job.body) if job.level else self._scanned
        self._queue(scanned.scripts, job.level + 1)
        self._queue(scanned.bodies, job.level + 1, body=True)
        self._data += scanned.data
        doubt = scanned.doubt
        looked_at: set[tuple[str, ...]] = set()
        for found in scanned.found:
            key = tuple(found.words)
            if key in looked_at:
                continue
            looked_at.add(key)
            hit, unsure = self._search_command(found, job.level)
            doubt = doubt or unsure
            if hit:
                return hit
        return self._search_text(job.text) if doubt else None

    def _search_command(self, found: Found, level: int) -> tuple[Hit | None, bool]:
        words = [restore(word) for word in found.words]
        git = GitWords(words)
        inside = unwrap(words, git)
        for start in inside.starts:
            pattern = self._patterns.match(words, start, git)
            if pattern is None and _GLOB.search(found.words[start]):
                pattern = self._patterns.match_glob(found.words[start], words, start)
            if pattern is not None:
                return Hit(pattern, tuple(words[start:]), found.nested or level > 0 or start > 0), False
        if words[0] in _PRINTS:
            self._data += words[1:]
            self._data.append(" ".join(words[1:]))
        self._reads_script = self._reads_script or inside.reads_script
        self._queue(inside.scripts, level + 1)
        self._queue(inside.bodies, level + 1, body=True)
        return None, inside.doubt

    def _search_text(self, text: str) -> Hit | None:
        """Look for the words of a pattern wherever they stand in the bare text."""
        for words in _bare_words(text):
            git = GitWords(words)
            for start in range(len(words)):
                pattern = self._patterns.match(words, start, git)
                if pattern is not None:
                    return Hit(pattern, tuple(words[start : start + 8]), nested=True)
        return None


def _bare_words(text: str) -> Iterator[list[str]]:
    """The text without any structure: once with the quotes taken out, once with a gap where they were."""
    text = _ANSI_QUOTED.sub(lambda quoted: ansi_c(quoted[1]), _JOINED_LINES.sub("", text))
    for gap in ("", " "):
        yield [word for word in _BETWEEN_WORDS.split(_QUOTES.sub(gap, text)) if word]
