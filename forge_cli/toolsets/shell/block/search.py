"""The search for blocked commands: every reading of a line, scripts within scripts, and if in doubt the bare text."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from forge_cli.toolsets.shell.block.bare import bare_words, expanding_words, expands
from forge_cli.toolsets.shell.block.frames import FoundCommand, ScanBudget, Scanned
from forge_cli.toolsets.shell.block.patterns import Patterns
from forge_cli.toolsets.shell.block.quoting import restore
from forge_cli.toolsets.shell.block.scanner import scan
from forge_cli.toolsets.shell.block.unwrap import unwrap
from forge_cli.toolsets.shell.programs.git import GitWords

_LEVELS = 8
"""Scripts nested deeper than this are not taken apart: their bare text is searched."""
_STEPS_A_SCRIPT = 4
_GLOBS_AT_MOST = 500
"""More globs in place of programs are no commands that anybody means."""
_PRINTS = frozenset({"echo", "printf", "yes", "print"})
_GLOB = re.compile(r"[*?[]")


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
        self._budget = ScanBudget()
        self._jobs = deque([_Job(line, 0)])
        self._queued = {(line, False)}
        self._data: list[str] = []
        self._reads_script = False
        self._globs = 0

    def hit(self) -> Hit | None:
        """The first blocked command, if there is any; whatever goes wrong, the bare text is searched."""
        try:
            return self._hit()
        except Exception:
            return self._search_text(self._line) or self._search_unread(self._line)

    def _hit(self) -> Hit | None:
        while self._jobs:
            job = self._jobs.popleft()
            found = self._search_text(job.text) if job.level > _LEVELS else self._search(job)
            if found:
                return found
            if not self._jobs and self._reads_script:
                self._queue(self._data, job.level + 1)
            if self._jobs and self._budget.steps <= 0:
                return self._search_unread("\n".join(job.text for job in self._jobs))
        return None

    @cached_property
    def _scanned(self) -> Scanned:
        return scan(self._line, self._budget)

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
        scanned = scan(job.text, self._budget, body=job.body) if job.level else self._scanned
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
        if scanned.unread is not None and (hit := self._search_unread(job.text[scanned.unread :])):
            return hit
        return self._search_text(job.text) if doubt else None

    def _search_command(self, found: FoundCommand, level: int) -> tuple[Hit | None, bool]:
        words = [restore(word) for word in found.words]
        git = GitWords(words)
        inside = unwrap(words, git)
        for start in inside.starts:
            pattern = self._patterns.match(words, start, git)
            if pattern is None and _GLOB.search(found.words[start]):
                pattern = self._match_glob(found.words[start], words, start, git)
            if pattern is not None:
                return Hit(pattern, tuple(words[start:]), found.nested or level > 0 or start > 0), False
        if words[0] in _PRINTS:
            self._data += words[1:]
            self._data.append(" ".join(words[1:]))
        self._reads_script = self._reads_script or inside.reads_script
        self._queue(inside.scripts, level + 1)
        self._queue(inside.bodies, level + 1, body=True)
        return None, inside.doubt

    def _match_glob(self, glob: str, words: Sequence[str], start: int, git: GitWords) -> int | None:
        self._globs += 1
        too_many = self._globs > _GLOBS_AT_MOST
        return self._patterns.any if too_many else self._patterns.match_glob(glob, words, start, git)

    def _search_text(self, text: str) -> Hit | None:
        """Look for the words of a pattern wherever they stand in the bare text."""
        hits = (_hit_at(words, self._patterns.match_anywhere(words)) for words in bare_words(text))
        return next(filter(None, hits), None)

    def _search_unread(self, text: str) -> Hit | None:
        """The same for a text that was not taken apart: what it expands to is not known either."""
        if hit := self._search_text(text):
            return hit
        words = expanding_words(text) if expands(text) or "`" in text else []
        return _hit_at(words, self._patterns.match_expanding(words))


def _hit_at(words: Sequence[str], found: tuple[int, int] | None) -> Hit | None:
    return Hit(found[0], tuple(words[found[1] : found[1] + 8]), nested=True) if found else None
