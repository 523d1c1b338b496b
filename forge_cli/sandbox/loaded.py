"""Files that forge, or a program that it starts unconfined, loads or obeys: who writes one decides what runs there."""

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
"""Folders and files that tell Python what is installed, and so which plugins there are."""


class LoadedPath(Struct, frozen=True):
    """A file, or a folder with all that lies in it; a ``*`` in a name stands for anything."""

    path: Path
    why: str

    def holds(self, way: Parts) -> bool:
        """Whether a path, given by its folded parts, is this one or lies in it."""
        own = folded_parts(self.path)
        return fits_pattern(way[: len(own)], own)


class ImportFolder(Struct, frozen=True):
    """A folder in which Python looks for modules, and in which other files lie as well."""

    path: Path
    whole: frozenset[str]
    """First names of modules that are imported from there: all that belongs to one counts."""
    names: frozenset[str]
    """First names that would be imported from there if there were such a module."""
    why: str

    def holds(self, way: Parts) -> bool:
        """Whether a path, given by its folded parts, would be imported from this folder, or be read as metadata."""
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
        if dot:
            return len(inside) == 1 and _is_module(rest)
        return len(inside) == 2 and inside[1].partition(".")[0] == "__init__"

    def existing(self) -> Iterator[Path]:
        """The files and folders of that kind that are there now."""
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
                yield from (
                    inner / each for each in os.listdir(inner) if self._loads((name, folded(each)))
                )


def _is_module(suffixes: str) -> bool:
    return suffixes.rpartition(".")[2] in _MODULE_SUFFIXES


class LoadedFiles(Struct, frozen=True):
    """All of them, as far as they lie in the zones of a worker."""

    paths: tuple[LoadedPath, ...] = ()
    folders: tuple[ImportFolder, ...] = ()

    @classmethod
    def within(
        cls, roots: Sequence[Path], paths: Iterable[LoadedPath], folders: tuple[ImportFolder, ...]
    ) -> LoadedFiles:
        """Those that lie in one of the folders ``roots``, or around one; of the latter it is the root that is held."""
        found: list[LoadedPath] = []
        for each in dict.fromkeys(paths):
            for path in dict.fromkeys(
                Path(find(each.path)) for find in (os.path.abspath, os.path.realpath)
            ):
                inside = any(path.is_relative_to(root) for root in roots)
                found += [LoadedPath(path, each.why)] if inside else []
                found += [
                    LoadedPath(root, each.why)
                    for root in roots
                    if root != path and root.is_relative_to(path)
                ]
        return cls(tuple(dict.fromkeys(found)), folders)

    def why(self, ways: Iterable[Parts]) -> str | None:
        """Why a file counts that is found by these paths, given by their folded parts; None where it does not."""
        for way in ways:
            for path in self.paths:
                if path.holds(way):
                    return path.why
            for folder in self.folders:
                if folder.holds(way):
                    return folder.why
        return None


Find = Callable[[], LoadedFiles]
"""Gives what is loaded as of now."""


def is_near(path: Path, root: Path) -> bool:
    """Whether one of two folders lies in the other."""
    return path.is_relative_to(root) or root.is_relative_to(path)


# Each check compares a path with hundreds of others that stay the same: folding those each time takes most of its time.
@lru_cache(maxsize=16384)
def folded_parts(path: Path) -> Parts:
    return tuple(map(folded, path.parts))


def fits_pattern(way: Parts, pattern: Parts) -> bool:
    """Whether the names of a path are those of a pattern, in which ``*`` stands for anything within a name."""
    return len(way) == len(pattern) and all(map(_is_alike, way, pattern))


def _is_alike(name: str, pattern: str) -> bool:
    return (
        fnmatchcase(name, pattern.replace("[", "[[]").replace("?", "[?]"))
        if "*" in pattern
        else name == pattern
    )


def existing_files(paths: Iterable[Path]) -> Iterator[Path]:
    """The files that paths name right now, in which a ``*`` stands for any name."""
    for path in paths:
        if "*" not in str(path):
            yield path
            continue
        first = next(index for index, part in enumerate(path.parts) if "*" in part)
        yield from Path(*path.parts[:first]).glob("/".join(path.parts[first:]))
