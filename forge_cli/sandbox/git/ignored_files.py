"""Files that git ignores: a changed time of such a file alone does not count as a change."""

from __future__ import annotations

import os
from pathlib import Path
from struct import error as StructError  # noqa: N812

from msgspec import Struct

from forge_cli.sandbox.git.ignore_rules import IgnoreLevel, parse_rules
from forge_cli.sandbox.git.index import staged_entries

_GIT, _EXCLUDE, _INDEX = ".git", "info/exclude", "index"


class IgnoredFiles:
    """A test for files that git ignores; each repository is read once."""

    def __init__(self) -> None:
        self._repositories: dict[Path, _Repository | None] = {}

    def __contains__(self, path: Path) -> bool:
        for folder in path.parents:
            if folder not in self._repositories:
                self._repositories[folder] = _Repository.of(folder)
            if repository := self._repositories[folder]:
                return repository.ignores(path)
        return False


class _Repository(Struct, frozen=True):
    root: Path
    tracked: frozenset[bytes]
    """Files in the index, which no rule ignores."""
    base: IgnoreLevel

    @classmethod
    def of(cls, folder: Path) -> _Repository | None:
        """Return the repository of a working tree.

        If its index is unreadable, it ignores nothing.
        """
        if not os.path.lexists(folder / _GIT):
            return None
        git = folder / _GIT
        try:
            tracked = frozenset(name for *_, name in staged_entries((git / _INDEX).read_bytes()))
        # Without knowing the tracked files, ignoring one could hide a real change.
        except (OSError, StructError, ValueError, IndexError):
            return cls(folder, frozenset(), IgnoreLevel())
        try:
            base = IgnoreLevel(parse_rules((git / _EXCLUDE).read_bytes()))
        except OSError:
            base = IgnoreLevel()
        return cls(folder, tracked, base)

    def ignores(self, path: Path) -> bool:
        """Return True if a rule ignores an untracked file or a folder around it."""
        name = os.fsencode(path.relative_to(self.root))
        if not self.tracked or name in self.tracked:
            return False
        level = self.base
        parts = name.split(b"/")
        for depth in range(len(parts)):
            level = level.enter(os.fsencode(self.root), b"/".join(parts[:depth]))
            if level.ignores(b"/".join(parts[: depth + 1]), is_folder=depth + 1 < len(parts)):
                return True
        return False
