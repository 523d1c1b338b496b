"""Protected places: the names on the way to one, and the files of the worker itself."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from forge_cli.sandbox import files
from forge_cli.sandbox.names import folded
from forge_cli.sandbox.protected import FOLDERS, TOOLS, WORKER_SUFFIX, WORKERS, is_secret, protected_among

if TYPE_CHECKING:
    from forge_cli.sandbox.files.place import Place


def secret_in(place: Place) -> str | None:
    """The name on the way to a place, or of a link that led there, that may hold secrets."""
    return next((name for name in _names(place) if is_secret(name)), None)


def protected_in(place: Place) -> tuple[str, str] | None:
    """The name on the way to a place, or of a link that led there, that is protected, and why it is."""
    ways = ((place.zone.path.name, place.parts), *((link.parent.name, (link.name,)) for link in place.links))
    if found := next(filter(None, (protected_among(parts, around) for around, parts in ways)), None):
        return found
    around = (*place.zone.path.parts, *(name for link in place.links for name in link.parts))
    folders = [name for name in around if folded(name) in FOLDERS]
    if folders:
        return protected_among(folders)
    if folded(place.name) == TOOLS and _lies_beside_a_worker(place):
        return place.name, "it may be the code of the worker beside it"
    return None


def _lies_beside_a_worker(place: Place) -> bool:
    if place.missing or not place.parts:
        return False
    with files.place.open_for_listing(place.folder) as folder:
        names = map(folded, os.listdir(folder))
        return any(name in WORKERS or name.endswith(WORKER_SUFFIX) for name in names)


def _names(place: Place) -> Iterator[str]:
    yield from place.parts
    yield from (link.name for link in place.links)


class OwnFiles:
    """The worker's own files: to change them is to change what the worker is allowed to do.

    A ``*`` in a path stands for any name, of files that are still to be made as well.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        given = [Path(os.path.abspath(path)) for path in paths]
        real = [Path(os.path.realpath(path)) for path in given]
        named = dict.fromkeys((*given, *real))
        self._paths = tuple(path for path in named if "*" not in str(path))
        self._folded = {tuple(map(folded, path.parts)) for path in self._paths}
        self._patterns = {tuple(map(folded, path.parts)) for path in named if "*" in str(path)}

    def __contains__(self, place: Place) -> bool:
        ways = [tuple(map(folded, path.parts)) for path in (place.real, *place.links)]
        if any(way[: len(own)] == own for way in ways for own in self._folded):
            return True
        if any(_fits(way, pattern) for way in ways for pattern in self._patterns):
            return True
        return place.info is not None and any(self._is(path, place.info) for path in self._paths)

    @staticmethod
    def _is(path: Path, info: os.stat_result) -> bool:
        try:
            return os.path.samestat(os.stat(path), info)
        except OSError:
            return False


def _fits(way: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    return len(way) == len(pattern) and all(map(fnmatchcase, way, pattern))


def existing_files(paths: Iterable[Path]) -> Iterator[Path]:
    """The files that the worker's own paths name right now."""
    for path in paths:
        if "*" not in str(path):
            yield path
            continue
        first = next(index for index, part in enumerate(path.parts) if "*" in part)
        yield from Path(*path.parts[:first]).glob("/".join(path.parts[first:]))
