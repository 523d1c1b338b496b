"""The search for blocked commands in a line, in every way that a shell could read it."""

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

_MAX_LEVELS = 8
"""Scripts nested deeper than this are not parsed: their bare text is searched."""
_STEPS_PER_SCRIPT = 4
_MAX_GLOBS = 500
"""With more globs than this in place of programs, any pattern counts as found."""
_PRINTS = frozenset({"echo", "printf", "yes", "print"})
_STARTS_NOTHING = word_set(
    "mkdir touch rmdir rm cp mv ln ls cat stat wc head tail chmod basename dirname realpath "
    "readlink du df file cmp md5sum sha1sum sha256sum cd pushd true false test ["
)
"""Programs that start no others and do not print their words, which could be read as a script."""
_DEFINES = re.compile(
    r"\([\s\\]*\)|\b(?:function|alias|eval|source|enable)\b|(?:^|[\s;&|])\.\s|BASH_|PATH"
)
"""Syntax that can give a name another meaning."""
_GLOB = re.compile(r"[*?~]|\[.")
_WORDS_PER_STEP = 16
_MAX_FED = 12
_MAX_SHOWN_WORDS = 8


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
    """The search of one line."""

    def __init__(self, line: str, patterns: Patterns) -> None:
        self._line = line
        self._patterns = patterns
        # `alias ls=git`: once a line can redefine names, no program is known to start nothing
        safe = frozenset() if _DEFINES.search(line) else _STARTS_NOTHING - patterns.tokens
        self._budget = ScanBudget(start_nothing=safe)
        self._marks = Marks()
        self._jobs = deque([_Job(line, 0)])
        self._queued = {(line, False)}
        self._data: list[str] = []
        self._reads_script = False
        self._reads_makefile = False
        self._fed: list[Fed] = []
        self._globs = 0
        self._varied: set[tuple[str, ...]] = set()
        self._given = False
        """True once printed text was given to its readers; what they print is not given again."""
        self._together: Hit | None = None
        """A pattern whose words may meet in a command with too many readings to try each."""

    def hit(self) -> Hit | None:
        """Return the first blocked command, or None. If parsing fails, search the bare text."""
        try:
            return self._hit()
        except Exception:  # a line that crashes the parser must not pass
            return self._search_text(self._line) or self._search_unread(self._line)

    def bare_hit(self) -> Hit | None:
        """Return a blocked command by its words alone, for a shell with another grammar."""
        return self._search_unread(self._line)

    def _hit(self) -> Hit | None:
        while self._jobs:
            job = self._jobs.popleft()
            if job.level > _MAX_LEVELS:
                found = self._search_text(job.text)
            else:
                found = self._search(job)
            if found:
                return found
            if not self._jobs:
                # Only now is it known what the line prints, and whether something reads it.
                self._queue_data(job.level + 1)
            if self._jobs and self._budget.steps <= 0:
                return self._search_unread("\n".join(job.text for job in self._jobs))
        return self._together

    def _queue_data(self, level: int) -> None:
        """Queue text that is printed, fed or assigned in the line, if a command may run it."""
        if self._reads_script:
            texts = [*self._data, *self._values.texts()]
            self._queue(texts, level)
            # to dash `a &>b` is two commands
            self._queue([text.replace("&>", "& >") for text in texts], level)
        if self._reads_makefile:
            self._queue(list(map(makefile_script, self._data)), level)
        given: list[str] = []
        for fed in self._fed[:_MAX_FED]:
            given += [fed.given(data) for data in self._data[:_MAX_FED]]
        if self._fed and len(self._fed) + len(self._data) > _MAX_FED:
            words: set[str] = set()
            for fed in self._fed:
                words.update(fed.words)
            printed: set[str] = set()
            for data in self._data:
                printed.update(data.split())
            self._match_scattered(Scattered([words, printed]))
        self._queue(given, level)
        self._given = self._given or bool(given)

    def _print(self, words: Sequence[str]) -> None:
        """Keep printed text as it is, and with escapes decoded as ``printf`` decodes them."""
        texts = [*words, " ".join(words)]
        self._data += texts
        self._data += [ansi_characters(text) for text in texts if "\\" in text]

    @cached_property
    def _scanned(self) -> Scanned:
        return scan(self._line, self._budget, self._marks)

    def commands(self) -> list[FoundCommand]:
        """Return the commands of the line itself, to be shown; empty if it cannot be parsed."""
        try:
            return [found for found in self._scanned.found if found.literal]
        except Exception:  # the commands are shown only; the search itself decides
            return []

    def _queue(self, scripts: Sequence[str], level: int, *, body: bool = False) -> None:
        for script in scripts:
            if (script, body) not in self._queued:
                self._queued.add((script, body))
                self._jobs.append(_Job(script, level, body))

    def _search(self, job: _Job) -> Hit | None:
        self._budget.steps -= _STEPS_PER_SCRIPT
        if job.level:
            scanned = scan(job.text, self._budget, self._marks, body=job.body)
        else:
            scanned = self._scanned
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
        """Yield the words of a command with its expansions empty, then with possible values."""
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
                self._budget.steps -= 1 + len(words) // _WORDS_PER_STEP
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
        # Quoted characters are stand-ins from a private area; most commands have none.
        words = raw if "".join(raw).isascii() else [restore(word) for word in raw]
        command = CommandWords(words)
        inside = unwrap(words, command)
        has_globs = any(map(_GLOB.search, raw))
        for start in inside.starts:
            pattern = self._patterns.match(command, start)
            if pattern is None and has_globs:
                pattern = self._match_glob(raw, start, command)
            if pattern is not None:
                is_nested = found.nested or level > 0 or start > 0
                return Hit(pattern, tuple(words[start:]), is_nested), False
        self._reads_script = self._reads_script or inside.reads_script
        self._reads_makefile = self._reads_makefile or inside.reads_makefile
        if not self._given:
            if words[0] in _PRINTS:
                self._print(words[1:])
            self._fed += inside.fed
        self._queue(inside.scripts, level + 1)
        self._queue(inside.bodies, level + 1, body=True)
        return None, inside.doubt

    def _match_glob(self, raw: Sequence[str], start: int, command: CommandWords) -> int | None:
        if _GLOB.search(raw[start]):
            self._globs += 1
        if self._globs > _MAX_GLOBS:
            return self._patterns.any
        return self._patterns.match_glob(raw, start, command)

    def _search_text(self, text: str) -> Hit | None:
        """Search the bare text for the words of a pattern, wherever they are."""
        for words in bare_words(text):
            if hit := _hit_at(words, self._patterns.match_anywhere(words)):
                return hit
        return None

    def _search_unread(self, text: str) -> Hit | None:
        """Search text that was not parsed, and whose expansions may become any word."""
        if hit := self._search_text(text):
            return hit
        words = expanding_words(text) if expands(text) or "`" in text else []
        hit = _hit_at(words, self._patterns.match_expanding(words))
        if hit is None and "$" in text:
            self._match_scattered(Scattered([self._line_words]))
        return hit or self._together

    def _match_scattered(self, words: Scattered) -> None:
        if self._together:
            return
        if found := self._patterns.match_scattered(words):
            pattern, tokens = found
            self._together = Hit(pattern, tokens, nested=True)


def _hit_at(words: Sequence[str], found: tuple[int, int] | None) -> Hit | None:
    if found is None:
        return None
    pattern, start = found
    return Hit(pattern, tuple(words[start : start + _MAX_SHOWN_WORDS]), nested=True)
