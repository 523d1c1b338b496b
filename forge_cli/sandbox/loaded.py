"""Files that forge, or an unconfined program that it starts, loads or obeys.

A program that writes such a file decides what runs outside the sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from forge_cli.sandbox.names import folded

Parts = tuple[str, ...]
_MODULE_SUFFIXES = frozenset({"py", "pyc", "so", "pyd"})
_METADATA = (".dist-info", ".egg-info", ".egg", ".egg-link")
"""Suffixes of the metadata by which Python finds installed packages, and so plugins."""


class LoadedPath(Struct, frozen=True):
    """A file, or a folder with everything in it; ``*`` in a name stands for anything."""

    path: Path
    why: str

    def holds(self, way: Parts) -> bool:
        """Return True if a path, given by its folded parts, is this path or below it."""
        own = folded_parts(self.path)
        return fits_pattern(way[: len(own)], own)


class ImportFolder(Struct, frozen=True):
    """A folder on Python's import path that may also contain other files."""

    path: Path
    whole: frozenset[str]
    """Top-level names of modules imported from this folder, with all their files."""
    names: frozenset[str]
    """Top-level names that would be imported from this folder if it had such a module."""
    why: str

    def holds(self, way: Parts) -> bool:
        """Return True if a path would be imported from this folder or read as package metadata."""
        own = folded_parts(self.path)
        return len(way) > len(own) and way[: len(own)] == own and self._loads(way[len(own) :])

    def _loads(self, inside: Parts) -> bool:
        first = inside[0]
        if first.endswith(_METADATA):
            return True
        name, dot, rest = first.partition(".")
        if name in self.whole:
            return not dot or _is_module(rest)
        if name not in self.names:
            return False
        # Such a module does not exist yet: only files that would make it importable count.
        if dot:
            return len(inside) == 1 and _is_module(rest)
        return len(inside) == 2 and inside[1].partition(".")[0] == "__init__"

    def existing(self) -> Iterator[Path]:
        """Yield the existing files and folders that Python would load."""
        try:
            found = os.listdir(self.path)
        except OSError:
            return
        for entry in found:
            name = folded(entry)
            inner = self.path / entry
            if self._loads((name,)):
                yield inner
            elif name in self.names and inner.is_dir():
                for each in os.listdir(inner):
                    if self._loads((name, folded(each))):
                        yield inner / each


def _is_module(suffixes: str) -> bool:
    return suffixes.rpartition(".")[2] in _MODULE_SUFFIXES


class LoadedFiles(Struct, frozen=True):
    """All loaded files in the zones of a worker."""

    paths: tuple[LoadedPath, ...] = ()
    folders: tuple[ImportFolder, ...] = ()

    @classmethod
    def within(
        cls, roots: Sequence[Path], paths: Iterable[LoadedPath], folders: tuple[ImportFolder, ...]
    ) -> LoadedFiles:
        """Return the files inside one of the folders ``roots``.

        If a loaded folder contains a root, the root itself counts.
        """
        found: list[LoadedPath] = []
        for each in dict.fromkeys(paths):
            spellings = (os.path.abspath(each.path), os.path.realpath(each.path))
            for path in dict.fromkeys(map(Path, spellings)):
                for root in roots:
                    if path.is_relative_to(root):
                        found.append(LoadedPath(path, each.why))
                    elif root.is_relative_to(path):
                        found.append(LoadedPath(root, each.why))
        return cls(tuple(dict.fromkeys(found)), folders)

    def why(self, ways: Iterable[Parts]) -> str | None:
        """Return the reason why forge loads a file with one of these paths, or None.

        ``ways`` are the paths, each as its case-folded parts.
        """
        for way in ways:
            for path in self.paths:
                if path.holds(way):
                    return path.why
            for folder in self.folders:
                if folder.holds(way):
                    return folder.why
        return None


Find = Callable[[], LoadedFiles]
"""Callback that returns the files loaded as of now."""


def is_near(path: Path, root: Path) -> bool:
    """Return True if one of two folders is inside the other."""
    return path.is_relative_to(root) or root.is_relative_to(path)


# Each check compares a path with hundreds of others; folding them anew would dominate the time.
@lru_cache(maxsize=16384)
def folded_parts(path: Path) -> Parts:
    """Return the parts of a path, folded so that equal files have equal parts."""
    return tuple(map(folded, path.parts))


def fits_pattern(way: Parts, pattern: Parts) -> bool:
    """Return True if the path has the names of the pattern; ``*`` stands for anything in a name."""
    return len(way) == len(pattern) and all(map(_is_alike, way, pattern))


def _is_alike(name: str, pattern: str) -> bool:
    if "*" not in pattern:
        return name == pattern
    # Only ``*`` is special in a pattern.
    return fnmatchcase(name, pattern.replace("[", "[[]").replace("?", "[?]"))


def existing_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files that the paths name now; ``*`` stands for any name."""
    for path in paths:
        if "*" not in str(path):
            yield path
            continue
        first = next(index for index, part in enumerate(path.parts) if "*" in part)
        yield from Path(*path.parts[:first]).glob("/".join(path.parts[first:]))
