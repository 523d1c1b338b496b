"""Commands that read hidden files which no word names: those that hold secrets are looked for first."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path

from forge_cli.sandbox.protected import is_secret
from forge_cli.toolsets.shell.programs.names import below
from forge_cli.toolsets.shell.programs.table import program

FILES_AT_MOST = 50_000
"""In a larger tree nobody can tell in time."""
_GREP = re.compile(r"-[A-Za-z0-9]*[dRr].*|--[dr].*")
"""Options may be abbreviated; one that means something else only costs a look."""
_RG = re.compile(
    r"-[A-Za-z]*[u.][A-Za-z]*|--(?:hidden|unrestricted|no-ignore.*|type-add.*)|--type=(?:all|sh)|-t(?:all|sh)"
)
_RG_GLOB = re.compile(r"-[A-Za-z]*g(.*)|--i?glob(?:=(.*))?")
_GIT = ("--no-index", "--untracked", "--no-exclude-standard")
_EXPANDS = re.compile(r"[{\[\\]")


@dataclass(frozen=True)
class HiddenReads:
    """What a command reads besides the files that its words name: below folders, where a name fits one of the globs."""

    globs: tuple[str, ...] = ()
    """All names, where there are none."""
    here: bool = True
    """The folder where it runs, where its words name none."""

    def find_secret(self, words: Sequence[str], here: Iterable[Path]) -> str | None:
        """A file of secrets among what is read, or why that is not known."""
        roots = [*here]
        named = [path for root in roots for word in words[1:] if below(word) and (path := root / word).is_dir()]
        return next(filter(None, map(self._find_below, named or (roots if self.here else ()))), None)

    def _find_below(self, folder: Path) -> str | None:
        seen = 0
        for place, _, names in os.walk(folder):
            if name := next((name for name in names if is_secret(name) and self._fits(name)), None):
                return os.path.normpath(os.path.join(os.path.relpath(place, folder), name)) + ", which may hold secrets"
            seen += len(names)
            if seen > FILES_AT_MOST:
                return f"more than {FILES_AT_MOST:,} files, of which some may hold secrets"
        return None

    def _fits(self, name: str) -> bool:
        ends = [glob.rsplit("/", 1)[-1] for glob in self.globs]
        return not ends or any(_EXPANDS.search(end) or fnmatchcase(name, end.lower()) for end in ends)


def hidden_reads(words: Sequence[str]) -> HiddenReads | None:
    """What a command reads that no word names; None where it skips hidden files, or reads none."""
    match program(words[0]):
        case "grep" | "egrep" | "fgrep" | "zgrep" if any(map(_GREP.fullmatch, words[1:])):
            return HiddenReads(tuple(_values(words, "--include")))
        case "rg":
            globs = tuple(glob for glob in _rg_globs(words) if not glob.startswith("!"))
            return HiddenReads(globs) if globs or any(map(_RG.fullmatch, words[1:])) else None
        case "diff":
            return HiddenReads(here=False)
        case "git" if any(len(word) > 3 and option.startswith(word) for word in words for option in _GIT):
            return HiddenReads()
    return None


def _values(words: Sequence[str], option: str) -> Iterator[str]:
    for word, after in pairwise((*words, "")):
        name, equals, value = word.partition("=")
        if name == option:
            yield value if equals else after


def _rg_globs(words: Sequence[str]) -> Iterator[str]:
    """A glob brings hidden files back that it fits."""
    for word, after in pairwise((*words, "")):
        if found := _RG_GLOB.fullmatch(word):
            yield found[1] or found[2] or after
