"""Files that the commands of a plain line read, whether their words name them or not."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from glob import iglob
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.bashrules.allow.folders import CommandPlace, Folders, in_its_folder
from forge_cli.bashrules.allow.hazards import innermost
from forge_cli.bashrules.allow.lexer import ShellWord
from forge_cli.bashrules.allow.redirects import reads_no_content
from forge_cli.bashrules.allow.values import Simple
from forge_cli.bashrules.place import Place
from forge_cli.bashrules.programs.table import below
from forge_cli.bashrules.rules import Match, behind_xargs
from forge_cli.bashrules.sets.listings import fitting, listed
from forge_cli.bashrules.sets.secrets import MAX_FILES, FilesBelow, hidden_reads, unhidden_globs

_ODD_NAME = re.compile(r"[-@(!~+].*|.*[\s\x00-\x1f'\"\\*?\[$`].*", re.DOTALL)
"""A name that the shell or a program may read as something else: an option, words, a glob."""
_BRACKETS = re.compile(r"[^/]*[\[\\][^/]*")

Placed = tuple[Simple, list[str]]
"""A command, and the folders in which it may run."""


class ReadFiles(Struct, frozen=True):
    """The files that commands read, as far as that is known before they run."""

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
        """Yield why a line may read secrets, and why one that a rule set allows may leave zones."""
        writes = any(_writes_file(command) for command, _ in placed)
        for command, possible in placed:
            match = matches.get(command.with_assigned)
            simple, places = _in_its_folder(command, possible)
            scripts = _scripts(simple, match)
            operands = [word for at, word in enumerate(simple.texts) if at and at not in scripts]
            reads = not reads_no_content(innermost_words(simple) or [""])
            for operand in self.operands(operands, places):
                yield from self._behind(operand, reads=reads, of_set=of_set)
            if of_set:
                folders = [self.workspace / place for place in places]
                checked = match is not None and match.rule.checked
                if unnamed := self._unnamed(simple, folders, checked=checked):
                    yield f"it would read {unnamed}"
                if odd := self._odd_output(simple, folders, writes=writes):
                    yield odd

    def operands(self, words: Iterable[str], places: Sequence[str]) -> Iterator[str]:
        """Yield the words that may name files in the zones, as seen from each of the places."""
        for word in words:
            joined = [os.path.normpath(os.path.join(place, word)) for place in places]
            if self.may_name_file(word):
                yield from joined
            elif _goes_up(word):
                yield from filter(below, joined)

    def may_name_file(self, word: str) -> bool:
        """Return True if a word looks like a path in the working directory or a zone."""
        if below(word):
            return True
        if not word.startswith("/"):
            return False
        folders = self._folders()
        roots = [*map(str, folders), *map(os.path.realpath, folders)]
        return is_in_any(os.path.normpath(word), roots)

    def _behind(self, operand: str, *, reads: bool, of_set: bool) -> Iterator[str]:
        """Yield the objections to an operand that is a link."""
        path = self.workspace / operand
        if not os.path.lexists(path):
            return
        real = os.path.realpath(path)
        if reads and self._holds_secrets(real):
            yield f"{operand} leads to a file that may hold secrets"
        if of_set and self._is_outside(real):
            yield f"{operand} leads out of the zones"

    def _unnamed(self, simple: Simple, folders: Sequence[Path], *, checked: bool) -> str | None:
        """Return a file of secrets that a command reads without naming it, or an odd name."""
        words = innermost_words(simple)
        listings = self._listings(simple)
        names = [word for word in words[1:] if self.may_name_file(word) or _goes_up(word)]
        for listing in listings:
            names += listing.roots or (".",)  # a listing may name folders
        if words:
            below_them = hidden_reads(words, names, folders, held=self.place.held, checked=checked)
            if below_them:
                listings.insert(0, below_them)
        for files in listings:
            if secret := files.find_secret(folders, self.place.names.is_secret):
                return secret
        for word in simple.words:
            if pattern := _glob_of(word):
                for name in self._odd_names(pattern, folders):
                    return name
        return None

    def _odd_output(self, simple: Simple, folders: Sequence[Path], *, writes: bool) -> str | None:
        """Return why names that another command prints may be more than names of plain files."""
        if self.place.held:
            return None
        unknown = [*(word.unknown for word in simple.words), simple.fed]
        for each in unknown:
            if each is None or not each.printed_by:
                continue
            files = listed(each)
            if files is None:
                continue
            if writes:
                return "the line writes a file, which may be one of the names that it lists"
            if each.printed_by[0][0] == "rg" and not files.hidden:
                is_hidden_read = bool(unhidden_globs(files.roots, folders))
                files = replace(files, hidden=is_hidden_read)
            for folder in folders:
                if odd := self._odd_below(files, folder):
                    return f"a listing may contain {odd}, which is not the name of a plain file"
        return None

    def _odd_below(self, files: FilesBelow, folder: Path) -> str | None:
        """Return a file or folder of a listing that is no plain name, or a link elsewhere."""
        for root in files.roots or (".",):
            for count, entry in enumerate(files.walk(str(folder / root))):
                # A folder is a part of the names in it.
                is_named = files.fits(entry) or entry.is_dir()
                inside = os.path.relpath(entry.path, folder)
                printed = entry.path if root.startswith("/") else inside
                if count > MAX_FILES or (is_named and self._is_odd(folder, printed)):
                    return inside
        return None

    def _listings(self, simple: Simple) -> list[FilesBelow]:
        """Return the files that unknown words and globs of a command can name."""
        unknown = [word.unknown for word in simple.words]
        found: list[FilesBelow] = []
        for each in (*unknown, simple.fed):
            if each and (files := listed(each)):
                found.append(files)
        for word in simple.words:
            if word.glob and not word.unknown:
                found.append(fitting([word.text]))
        return found

    def _odd_names(self, pattern: str, folders: Iterable[Path]) -> Iterator[str]:
        """Yield the files that fit a glob, and are not plain names of files that may be read."""
        pattern = _BRACKETS.sub("*", pattern)  # bash knows more bracket expressions than Python
        for folder in folders:
            for count, name in enumerate(iglob(pattern, root_dir=folder)):
                if count == MAX_FILES or self._is_odd(folder, name):
                    yield name

    def _is_odd(self, folder: Path, name: str) -> bool:
        if _ODD_NAME.fullmatch(name) or _ODD_NAME.fullmatch(os.path.basename(name.rstrip("/"))):
            return True
        real = os.path.realpath(folder / name)
        return self._holds_secrets(real) or self._is_outside(real)

    def _folders(self) -> list[Path]:
        return [self.workspace, *self.place.readable]

    def _is_outside(self, real: str) -> bool:
        return not is_in_any(real, map(os.path.realpath, self._folders()))

    def _holds_secrets(self, real: str) -> bool:
        inside = os.path.realpath(self.workspace) + os.sep
        if self.place.names.named_secret(real.removeprefix(inside)):
            return True
        return self.place.hides(Path(real))


def innermost_words(simple: Simple) -> list[str]:
    """Return the words of a command after its wrappers, and after ``xargs`` for rule sets."""
    if not simple.words:
        return []
    words = simple.texts[innermost(simple.texts, len(simple.words))[0] :]
    return words[behind_xargs(tuple(words)) or 0 :]


def is_in_any(path: str, folders: Iterable[str]) -> bool:
    """Return True if a path is one of the folders, or below one of them."""
    return any(path == folder or path.startswith(folder + os.sep) for folder in folders)


def _glob_of(word: ShellWord) -> str:
    """Return the glob that a word is or may become, or an empty text."""
    if word.unknown:
        return word.unknown.glob
    return word.text if word.glob else ""


def _writes_file(simple: Simple) -> bool:
    return any(
        ">" in operator and target.text != "/dev/null" and not target.text.isdigit()
        for operator, target, _ in simple.redirects
    )


def _goes_up(word: str) -> bool:
    return word.split("/")[0] == ".."


def _in_its_folder(simple: Simple, places: Sequence[str]) -> tuple[Simple, Sequence[str]]:
    """Return a command and the folders in which it runs, with ``git -C`` applied."""
    inside = in_its_folder(simple, CommandPlace(folders=Folders(frozenset(places))))
    if inside is None:
        return simple, places
    command, place = inside
    return command, sorted(filter(None, place.folders.possible))


def _scripts(simple: Simple, match: Match | None) -> Sequence[int]:
    """Return the places of words that are patterns or programs, not names of files."""
    if match is None or match.row is None:
        return ()
    return match.row.script_places(simple.texts, match.reach)
