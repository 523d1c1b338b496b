"""What a search is asked for, and which of the files that it finds count."""

from __future__ import annotations

import os
import re
from dataclasses import field
from functools import cached_property
from pathlib import Path

from forge_cli.core.errors import ToolError
from forge_cli.core.values import dataclass
from forge_cli.sandbox.names import shown, unusable
from forge_cli.sandbox.protected import is_secret
from forge_cli.sandbox.search.glob import Glob
from forge_cli.sandbox.search.ignore import IgnoreLevel
from forge_cli.sandbox.search.pattern import Dialects, dialects
from forge_cli.sandbox.search.tokens import BadGlob

SIZE_MAX = 10 * 1024 * 1024
"""Bytes of a file that is searched; larger ones are left out by both engines."""
LINES_MAX = 10_001
"""Lines of one file that are counted."""
_SIMPLE_NAME = re.compile(r"[A-Za-z0-9_.*?{},-]+")


@dataclass(frozen=True)
class Query:
    """A pattern, and a glob for the files; an empty one stands for all."""

    pattern: Dialects
    include: str = ""

    @classmethod
    def of(cls, pattern: str, include: str | None) -> Query:
        return cls(dialects(pattern), _glob(include) if include else "")

    @cached_property
    def names(self) -> Glob | None:
        return Glob(self.include) if self.include else None

    @property
    def last_name(self) -> str | None:
        """A glob that the name of every included file matches; None where there is no simple one."""
        last = self.include.rpartition("/")[2]
        whole_braces = last.count("{") == last.count("}") == self.include.count("{")
        return last if whole_braces and "**" not in last and _SIMPLE_NAME.fullmatch(last) else None


def _glob(include: str) -> str:
    """The glob for whole paths below the start of the search; one without a slash is for names, wherever they are."""
    glob = include.strip().removeprefix("./")
    problem = unusable(glob) or ("excludes files; name those to search" if glob.startswith("!") else None)
    if problem:
        raise ToolError(f"include {shown(include)} {problem}")
    glob = f"{glob}**" if glob.endswith("/") else glob
    glob = glob.removeprefix("/") if "/" in glob else f"**/{glob}"
    try:
        Glob(glob)
    except BadGlob as error:
        raise ToolError(
            f"include {shown(include)} is not a glob: {error}; use one like '*.py' or 'src/**/*.ts'"
        ) from None
    return glob


@dataclass(frozen=True)
class SearchStart:
    """Where a search begins: a file or folder below the root of a zone."""

    root: Path
    below: str = ""
    is_file: bool = False
    size: int = 0
    """Of a file."""


@dataclass
class FileFilter:
    """Which files below a start count; the engines leave most others out, this decides."""

    start: SearchStart
    query: Query
    _levels: dict[bytes, IgnoreLevel | None] = field(default_factory=dict)

    def takes(self, path: bytes) -> bool:
        """Whether a file counts."""
        if self.start.is_file:
            return True
        level = self._level(path.rpartition(b"/")[0])
        if level is None or is_secret(_name(path)) or level.leaves_out(path, is_folder=False):
            return False
        below = path[len(self._first) + 1 :] if self._first else path
        return self.query.names is None or self.query.names.matches(below)

    @cached_property
    def _first(self) -> bytes:
        return os.fsencode(self.start.below)

    def _level(self, folder: bytes) -> IgnoreLevel | None:
        """The rules in a folder; None for one that a search does not enter."""
        if folder not in self._levels:
            self._levels[folder] = self._entered(folder)
        return self._levels[folder]

    def _entered(self, folder: bytes) -> IgnoreLevel | None:
        root = str(self.start.root)
        if folder == self._first:
            return IgnoreLevel.above_folder(folder, root=root).enter(folder, root=root)
        level = self._level(folder.rpartition(b"/")[0]) if folder else None
        if level is None or is_secret(_name(folder)) or level.leaves_out(folder, is_folder=True):
            return None
        return level.enter(folder, root=root)


def is_usable(path: bytes) -> bool:
    """Whether every tool could be given this path: the names in it have no newlines, say."""
    return not any(unusable(os.fsdecode(name)) for name in path.split(b"/"))


def _name(path: bytes) -> str:
    return os.fsdecode(path.rpartition(b"/")[2])
