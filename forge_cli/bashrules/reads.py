"""Files that the commands of a plain line read: those that its words name, and those that they reach without naming."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from glob import iglob
from itertools import chain
from pathlib import Path

from msgspec import Struct

from forge_cli.bashrules.allow.folders import CommandPlace, Folders, in_its_folder
from forge_cli.bashrules.allow.hazards import innermost
from forge_cli.bashrules.allow.lexer import ShellWord
from forge_cli.bashrules.allow.redirects import reads_no_content
from forge_cli.bashrules.allow.values import Simple
from forge_cli.bashrules.place import Place
from forge_cli.bashrules.programs.table import below
from forge_cli.bashrules.rules import Match, behind_xargs
from forge_cli.bashrules.sets.listings import fitting, listed
from forge_cli.bashrules.sets.secrets import MAX_FILES, FilesBelow, hidden_reads

_ODD_NAME = re.compile(r"[-@(!~+].*|.*[\s\x00-\x1f'\"\\*?\[$`].*", re.DOTALL)
"""A name that a program or the shell may take for something else: an option, several words, a glob."""
_BRACKETS = re.compile(r"[^/]*[\[\\][^/]*")

Placed = tuple[Simple, list[str]]
"""A command, and the folders in which it may run."""


class ReadFiles(Struct, frozen=True):
    """The files that commands read, as far as that can be told before they run."""

    place: Place
    workspace: Path
    """The folder of the place."""

    def doubts(
        self,
        placed: Sequence[Placed],
        matches: Mapping[tuple[str, ...], Match | None],
        *,
        of_set: bool,
    ) -> Iterator[str]:
        """Reasons why a line may read secrets; and of one that a rule set allows, why it may read outside the zones."""
        found = [
            (matches.get(simple.with_assigned), *_in_its_folder(simple, places))
            for simple, places in placed
        ]
        for match, simple, places in found:
            scripts = _scripts(simple, match)
            operands = [word for at, word in enumerate(simple.texts) if at and at not in scripts]
            reads = not reads_no_content(innermost_words(simple) or [""])
            for operand in self.operands(operands, places):
                yield from self._behind(operand, reads=reads, of_set=of_set)
        for _, simple, places in found if of_set else ():
            folders = [self.workspace / place for place in places]
            if unnamed := self._unnamed(simple, folders):
                yield f"it would read {unnamed}"

    def operands(self, words: Iterable[str], places: Sequence[str]) -> Iterator[str]:
        """The words that may name files in the zones, in each of some folders."""
        for word in words:
            joined = [os.path.normpath(os.path.join(place, word)) for place in places]
            if self.may_name_file(word):
                yield from joined
            elif _goes_up(word):
                yield from filter(below, joined)

    def may_name_file(self, word: str) -> bool:
        """Whether a word, relative or absolute, reads like a path in the working directory or a zone."""
        if below(word):
            return True
        if not word.startswith("/"):
            return False
        folders = self._folders()
        roots = [*map(str, folders), *map(os.path.realpath, folders)]
        return is_in_any(os.path.normpath(word), roots)

    def _behind(self, operand: str, *, reads: bool, of_set: bool) -> Iterator[str]:
        """Yield the objections to an operand that is a link to something else."""
        path = self.workspace / operand
        if not os.path.lexists(path):
            return
        real = os.path.realpath(path)
        if reads and self._holds_secrets(real):
            yield f"{operand} leads to a file that may hold secrets"
        if of_set and self._is_outside(real):
            yield f"{operand} leads out of the zones"

    def _unnamed(self, simple: Simple, folders: Sequence[Path]) -> str | None:
        """A file of secrets that a command reads without naming it, or a name that becomes something else."""
        words = innermost_words(simple)
        unknown = [word.unknown for word in simple.words]
        listings = list(filter(None, (listed(each) for each in (*unknown, simple.fed) if each)))
        listings += [
            fitting([word.text]) for word in simple.words if word.glob and not word.unknown
        ]
        names = [word for word in words[1:] if self.may_name_file(word) or _goes_up(word)]
        for listing in listings:
            names += listing.roots or (".",)  # a listing may name folders
        below_them = hidden_reads(words, names, folders, held=self.place.held) if words else None
        reads: Sequence[FilesBelow] = [below_them, *listings] if below_them else listings
        found = next(
            filter(None, (each.find_secret(folders, self.place.names.is_secret) for each in reads)),
            None,
        )
        if found:
            return found
        globs = filter(None, map(_glob_of, simple.words))
        return next(chain.from_iterable(self._odd_names(each, folders) for each in globs), None)

    def _odd_names(self, pattern: str, folders: Iterable[Path]) -> Iterator[str]:
        """The files that fit a glob, and are not plain names of files that may be read."""
        pattern = _BRACKETS.sub("*", pattern)  # bash knows more of them than Python
        for folder in folders:
            for count, name in enumerate(iglob(pattern, root_dir=folder)):
                real = os.path.realpath(folder / name)
                is_odd = any(map(_ODD_NAME.fullmatch, (name, os.path.basename(name.rstrip("/")))))
                if (
                    is_odd
                    or self._holds_secrets(real)
                    or self._is_outside(real)
                    or count == MAX_FILES
                ):
                    yield name

    def _folders(self) -> list[Path]:
        return [self.workspace, *self.place.readable]

    def _is_outside(self, real: str) -> bool:
        return not is_in_any(real, map(os.path.realpath, self._folders()))

    def _holds_secrets(self, real: str) -> bool:
        inside = os.path.realpath(self.workspace) + os.sep
        return self.place.names.named_secret(real.removeprefix(inside)) or self.place.hides(
            Path(real)
        )


def innermost_words(simple: Simple) -> list[str]:
    """The words of a command behind its wrappers, and behind ``xargs`` as a rule set reads it."""
    if not simple.words:
        return []
    words = simple.texts[innermost(simple.texts, len(simple.words))[0] :]
    return words[behind_xargs(tuple(words)) or 0 :]


def is_in_any(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder + os.sep) for folder in folders)


def _glob_of(word: ShellWord) -> str:
    """The glob that a word is, or may become."""
    if word.unknown:
        return word.unknown.glob
    return word.text if word.glob else ""


def _goes_up(word: str) -> bool:
    return word.split("/")[0] == ".."


def _in_its_folder(simple: Simple, places: Sequence[str]) -> tuple[Simple, Sequence[str]]:
    """A command and the folders in which it runs, be they named by ``git -C``."""
    inside = in_its_folder(simple, CommandPlace(folders=Folders(frozenset(places))))
    return (
        (inside[0], sorted(filter(None, inside[1].folders.possible)))
        if inside
        else (simple, places)
    )


def _scripts(simple: Simple, match: Match | None) -> Sequence[int]:
    """The places of those words that are patterns and programs for a command."""
    return match.row.script_places(simple.texts, match.reach) if match and match.row else ()
