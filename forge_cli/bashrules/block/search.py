"""The search for blocked commands: every reading of a line, scripts within scripts, and if in doubt the bare text."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain

from msgspec import Struct

from forge_cli.bashrules.block.expansions import Marks, Scattered, TooMany, Values
from forge_cli.bashrules.block.frames import FoundCommand, ScanBudget, Scanned
from forge_cli.bashrules.block.patterns import CommandWords, Patterns
from forge_cli.bashrules.block.quoting import (
    ansi_characters,
    bare_words,
    expanding_words,
    expands,
    restore,
)
from forge_cli.bashrules.block.scanner import scan
from forge_cli.bashrules.block.unwrap import Fed, makefile_script, unwrap
from forge_cli.bashrules.programs.table import word_set

_LEVELS = 8
"""Scripts nested deeper than this are not taken apart: their bare text is searched."""
_STEPS_A_SCRIPT = 4
_GLOBS_AT_MOST = 500
"""More globs in place of programs are not commands that a person means."""
_PRINTS = frozenset({"echo", "printf", "yes", "print"})
_STARTS_NOTHING = word_set(
    "mkdir touch rmdir rm cp mv ln ls cat stat wc head tail chmod basename dirname realpath readlink du df file cmp "
    "md5sum sha1sum sha256sum cd pushd true false test ["
)
"""Programs that start no others, and print nothing that their words say, so that it could be read as a script."""
_DEFINES = re.compile(
    r"\([\s\\]*\)|\b(?:function|alias|eval|source|enable)\b|(?:^|[\s;&|])\.\s|BASH_|PATH"
)
"""Words by which a name may come to stand for something else."""
_GLOB = re.compile(r"[*?~]|\[.")
_WORDS_A_STEP = 16
_FED_MAX = 12


class Hit(Struct, frozen=True):
    """A command that a blocked pattern matches."""

    pattern: int
    words: tuple[str, ...]
    nested: bool


class _Job(Struct, frozen=True):
    text: str
    level: int
    body: bool = False


class Search:
    """One line, searched once."""

    def __init__(self, line: str, patterns: Patterns) -> None:
        self._line = line
        self._patterns = patterns
        safe = frozenset() if _DEFINES.search(line) else _STARTS_NOTHING - patterns.tokens
        self._budget = ScanBudget(start_nothing=safe)
        self._marks = Marks()
        self._jobs = deque([_Job(line, 0)])
        self._queued = {(line, False)}
        self._data: list[str] = []
        self._reads_script = self._reads_makefile = False
        self._fed: list[Fed] = []
        self._globs = 0
        self._varied: set[tuple[str, ...]] = set()
        self._given = False
        """Whether what is printed in the line has been given to those who read it; what they print is not."""
        self._together: Hit | None = None
        """Words that may come together in a command that has more readings than were looked at."""

    def hit(self) -> Hit | None:
        """The first blocked command, if there is any; after any failure the bare text is searched."""
        try:
            return self._hit()
        except Exception:
            return self._search_text(self._line) or self._search_unread(self._line)

    def bare_hit(self) -> Hit | None:
        """A blocked command by its words alone, for a shell whose grammar is not read here."""
        return self._search_unread(self._line)

    def _hit(self) -> Hit | None:
        while self._jobs:
            job = self._jobs.popleft()
            found = self._search_text(job.text) if job.level > _LEVELS else self._search(job)
            if found:
                return found
            if not self._jobs:
                self._queue_data(job.level + 1)
            if self._jobs and self._budget.steps <= 0:
                return self._search_unread("\n".join(job.text for job in self._jobs))
        return self._together

    def _queue_data(self, level: int) -> None:
        """Read text that is printed, fed or assigned in the line as a script, where something may."""
        if self._reads_script:
            texts = [*self._data, *self._values.texts()]
            self._queue([*texts, *(text.replace("&>", "& >") for text in texts)], level)
        if self._reads_makefile:
            self._queue(list(map(makefile_script, self._data)), level)
        given: list[str] = []
        for fed in self._fed[:_FED_MAX]:
            given += [fed.given(data) for data in self._data[:_FED_MAX]]
        if self._fed and len(self._fed) + len(self._data) > _FED_MAX:
            words = set[str]().union(*(fed.words for fed in self._fed))
            self._match_scattered(Scattered([words, set[str]().union(*map(str.split, self._data))]))
        self._queue(given, level)
        self._given = self._given or bool(given)

    def _print(self, words: Sequence[str]) -> None:
        """Keep what is printed, with its escapes as they are and as ``printf`` and ``echo -e`` read them."""
        texts = [*words, " ".join(words)]
        self._data += [*texts, *(ansi_characters(text) for text in texts if "\\" in text)]

    @cached_property
    def _scanned(self) -> Scanned:
        return scan(self._line, self._budget, self._marks)

    def commands(self) -> list[FoundCommand]:
        """The commands that stand in the line itself, for people to see; none where they cannot be told."""
        try:
            return [found for found in self._scanned.found if found.literal]
        except Exception:
            return []

    def _queue(self, scripts: Sequence[str], level: int, *, body: bool = False) -> None:
        for script in scripts:
            if (script, body) not in self._queued:
                self._queued.add((script, body))
                self._jobs.append(_Job(script, level, body))

    def _search(self, job: _Job) -> Hit | None:
        self._budget.steps -= _STEPS_A_SCRIPT
        scanned = (
            scan(job.text, self._budget, self._marks, body=job.body) if job.level else self._scanned
        )
        self._queue(scanned.scripts, job.level + 1)
        self._queue(scanned.bodies, job.level + 1, body=True)
        self._data += scanned.data
        doubt = scanned.doubt
        looked_at: set[tuple[str, ...]] = set()
        for assignment in scanned.assignments:
            self._values.assign(assignment)
        for name in scanned.fed:
            self._values.feed(name)
        for found in scanned.found:
            for words in self._readings(found):
                key = tuple(words)
                if not key or key in looked_at:
                    continue
                looked_at.add(key)
                hit, unsure = self._search_command(found, words, job.level)
                doubt = doubt or unsure
                if hit:
                    return hit
        if scanned.unread is not None and (hit := self._search_unread(job.text[scanned.unread :])):
            return hit
        return self._search_text(job.text) if doubt else None

    def _readings(self, found: FoundCommand) -> Iterator[Sequence[str]]:
        """The words of a command with its expansions empty, and with what they could be."""
        yield found.words
        marked = tuple(found.marked)
        if not marked or marked in self._varied or marked[0] in self._budget.start_nothing:
            return
        self._varied.add(marked)
        if self._budget.steps <= 0:
            self._match_scattered(Scattered([self._line_words]))
            return
        try:
            for words in self._values.variants(found.marked, self._marks):
                self._budget.steps -= 1 + len(words) // _WORDS_A_STEP
                yield words
                if self._budget.steps <= 0:
                    raise TooMany
        except TooMany:
            self._match_scattered(self._values.scattered(marked, self._marks))

    @cached_property
    def _values(self) -> Values:
        return Values(self._patterns.tokens, self._patterns.tokens & self._line_words, self._data)

    @cached_property
    def _line_words(self) -> set[str]:
        return {word.casefold() for word in chain.from_iterable(bare_words(self._line))}

    def _search_command(
        self, found: FoundCommand, raw: Sequence[str], level: int
    ) -> tuple[Hit | None, bool]:
        words = raw if "".join(raw).isascii() else [restore(word) for word in raw]
        git = CommandWords(words)
        inside = unwrap(words, git)
        globs = any(map(_GLOB.search, raw))
        for start in inside.starts:
            pattern = self._patterns.match(git, start)
            if pattern is None and globs:
                pattern = self._match_glob(raw, start, git)
            if pattern is not None:
                return Hit(
                    pattern, tuple(words[start:]), found.nested or level > 0 or start > 0
                ), False
        if words[0] in _PRINTS and not self._given:
            self._print(words[1:])
        self._reads_script = self._reads_script or inside.reads_script
        self._reads_makefile = self._reads_makefile or inside.reads_makefile
        self._fed += [] if self._given else inside.fed
        self._queue(inside.scripts, level + 1)
        self._queue(inside.bodies, level + 1, body=True)
        return None, inside.doubt

    def _match_glob(self, raw: Sequence[str], start: int, git: CommandWords) -> int | None:
        if _GLOB.search(raw[start]):
            self._globs += 1
        if self._globs > _GLOBS_AT_MOST:
            return self._patterns.any
        return self._patterns.match_glob(raw, start, git)

    def _search_text(self, text: str) -> Hit | None:
        """Look for the words of a pattern wherever they stand in the bare text."""
        hits = (_hit_at(words, self._patterns.match_anywhere(words)) for words in bare_words(text))
        return next(filter(None, hits), None)

    def _search_unread(self, text: str) -> Hit | None:
        """The same for a text that was not taken apart: what it expands to is not known either."""
        if hit := self._search_text(text):
            return hit
        words = expanding_words(text) if expands(text) or "`" in text else []
        hit = _hit_at(words, self._patterns.match_expanding(words))
        if hit is None and "$" in text:
            self._match_scattered(Scattered([self._line_words]))
        return hit or self._together

    def _match_scattered(self, words: Scattered) -> None:
        if found := None if self._together else self._patterns.match_scattered(words):
            self._together = Hit(found[0], found[1], nested=True)


def _hit_at(words: Sequence[str], found: tuple[int, int] | None) -> Hit | None:
    return Hit(found[0], tuple(words[found[1] : found[1] + 8]), nested=True) if found else None
