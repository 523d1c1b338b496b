"""Checks of the files that a line would use, which may contradict rules that pre-approve it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from msgspec.structs import replace

from forge_cli.bashrules.allow.folders import CommandPlace, Folders
from forge_cli.bashrules.allow.values import Simple
from forge_cli.bashrules.decision import Decision
from forge_cli.bashrules.judge import CommandPart, Verdict
from forge_cli.bashrules.line import ReadLine
from forge_cli.bashrules.place import FileUse, Place
from forge_cli.bashrules.programs.discarding import possible_files
from forge_cli.bashrules.programs.readers import leaves_operands_alone, only_reads
from forge_cli.bashrules.reads import Placed, ReadFiles, innermost_words, is_in_any
from forge_cli.bashrules.sets.folders import unmet_need
from forge_cli.bashrules.sets.secrets import hook_folders

_DESCRIPTOR = re.compile(r"[0-9]+-?|-")


class FileLooks:
    """The checks of the files around one working directory."""

    def __init__(self, place: Place, folder: Path) -> None:
        self._place = place
        self._folder = folder
        self._reads = ReadFiles(place, folder)

    def looked(
        self, verdict: Verdict, line: ReadLine, before: ReadLine | None, unsure: Decision
    ) -> Verdict:
        """Return the verdict with the doubts that the files raise; ``unsure`` decides these."""
        if verdict.decision is not Decision.PRE_APPROVED and not verdict.grantable:
            return verdict
        placed = list(self._placed(line, before))
        files: list[FileUse] = []
        for command, folders in placed:
            files += _redirected(command, folders)
        verdict = replace(verdict, files=tuple(files))
        if verdict.decision is not Decision.PRE_APPROVED:
            return self._as_grantable(verdict, placed)
        doubt = next(self._doubts(placed, verdict.parts), None)
        if doubt is None:
            return verdict
        return replace(verdict, decision=unsure, reason=doubt, match=None, doubt=doubt)

    def _as_grantable(self, verdict: Verdict, placed: Sequence[Placed]) -> Verdict:
        """Return the verdict without patterns to grant if a file speaks against them."""
        if any(self._checked_out(placed)):
            return replace(verdict, grantable=(), shorter=())
        operands: list[str] = []
        for command, folders in placed:
            operands += self._reads.operands(command.texts[1:], folders)
        return replace(verdict, operands=tuple(operands))

    def _doubts(self, placed: Sequence[Placed], parts: Sequence[CommandPart]) -> Iterator[str]:
        matches = {part.words: part.match for part in parts}
        of_set = any(part.row for part in parts)
        return chain(
            self._reads.doubts(placed, matches, of_set=of_set),
            self._written(placed),
            self._checked_out(placed),
            self._unmet(parts, placed),
        )

    def _placed(self, line: ReadLine, before: ReadLine | None) -> Iterator[Placed]:
        """Yield the commands of a plain line, with the folders in which each may run."""
        place = CommandPlace(folders=Folders(root=str(self._folder)), looks=self._place.looks)
        if before:
            place = place.after_lines(before.require_commands())
        for command in line.parted:
            yield command, sorted(folder for folder in place.folders.possible if folder is not None)
            place = place.after(command)

    def _unmet(self, parts: Sequence[CommandPart], placed: Iterable[Placed]) -> Iterator[str]:
        """Yield why rows of rule sets do not cover a command in its folders."""
        matches = {part.words: part.match for part in parts if part.row}
        for command, folders in placed:
            match = matches.get(command.with_assigned)
            if match is None or match.row is None or not match.row.needs:
                continue
            words = command.texts[match.start :]
            for folder in folders:
                place = self._folder / folder
                if why := unmet_need(match.row, match.tokens, words, place, self._folder):
                    yield why

    def _written(self, placed: Iterable[Placed]) -> Iterator[str]:
        """Yield files that a command runs or loads, and that were written without asking."""
        around = os.path.realpath(self._folder)
        written = [os.path.realpath(root) for root in self._place.written]
        written = [root for root in written if root != around]
        if not written:
            return
        for command, folders in placed:
            words = innermost_words(command)
            if not words:
                continue
            for path in self._run_or_loaded(words, folders):
                if is_in_any(os.path.realpath(path), written):
                    name = os.path.relpath(path, self._folder)
                    yield f"'{words[0]}' may run {name}, which is written without asking"
                    break

    def _run_or_loaded(self, words: Sequence[str], folders: Sequence[str]) -> Iterator[str]:
        if words[0] == "git" and not only_reads(words):
            yield from map(str, hook_folders(self._folder))
        if leaves_operands_alone(words):
            return
        for word in filter(self._reads.may_name_file, words[1:]):
            for folder in folders:
                path = self._folder / folder / word
                if os.path.lexists(path):
                    yield str(path)

    def _checked_out(self, placed: Iterable[Placed]) -> Iterator[str]:
        """Yield files for which ``git checkout`` reads a word that could be a branch."""
        for command, folders in placed:
            for word in possible_files(innermost_words(command)):
                if any(os.path.lexists(self._folder / folder / word) for folder in folders):
                    yield f"{word} is a file here, whose changes git checkout may throw away"


def _redirected(command: Simple, folders: Sequence[str]) -> Iterator[FileUse]:
    """Yield the files that the redirections of a command open, in each possible folder."""
    for operator, target, _ in command.redirects:
        copies = operator.endswith("&") and _DESCRIPTOR.fullmatch(target.text)
        if copies or operator in ("<<", "<<<") or target.text == "/dev/null":
            continue
        for folder in folders:
            yield FileUse(os.path.normpath(os.path.join(folder, target.text)), ">" in operator)
