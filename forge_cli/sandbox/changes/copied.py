"""The changes of a plain copy, compared with its state when it was made."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from forge_cli.sandbox.changes.path_changes import (
    FOREVER,
    PathChange,
    Reader,
    UnknownChange,
    entry_of,
    is_scratch,
)
from forge_cli.sandbox.git.ignored_files import IgnoredFiles

Stamp = tuple[int, int, int, int, int]
"""Mode, size, time, change time and inode number; of a folder only mode and inode number."""


def stamp_of(info: os.stat_result) -> Stamp:
    """Return what differs after any change of a path; entries of a folder do not count."""
    if stat.S_ISDIR(info.st_mode):
        return info.st_mode, 0, 0, 0, info.st_ino
    return info.st_mode, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino


def scan_tree(top: str) -> Iterator[tuple[tuple[str, ...], os.stat_result]]:
    """Yield the path and state of everything below a folder, and of the folder itself."""
    yield (), os.lstat(top)
    waiting: list[tuple[str, tuple[str, ...]]] = [(top, ())]
    while waiting:
        folder, around = waiting.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                parts = (*around, entry.name)
                info = entry.stat(follow_symlinks=False)
                yield parts, info
                if stat.S_ISDIR(info.st_mode):
                    waiting.append((entry.path, parts))


def read_copied(zone: Path, copy: Path, made: Mapping[tuple[str, ...], Stamp]) -> list[PathChange]:
    """Return all changes of a copy, folders before their contents.

    ``made`` has the stamps of the copy when it was made; other paths of the zone, which it lacked,
    are not changes.
    """
    reader = Reader(str(zone), False, FOREVER, IgnoredFiles())
    found: list[PathChange] = []
    seen: set[tuple[str, ...]] = set()
    try:
        for parts, info in scan_tree(str(copy)):
            seen.add(parts)
            if made.get(parts) != stamp_of(info) and not is_scratch(parts):
                found += _changed(reader, zone, copy, parts, info)
        for parts in made:
            if parts not in seen and not is_scratch(parts[:-1]):
                found += _deleted(zone, parts)
    except OSError as error:
        raise UnknownChange(f"{error.filename}: {error.strerror}") from None
    return sorted(found, key=lambda change: change.parts)


def _changed(
    reader: Reader, zone: Path, copy: Path, parts: tuple[str, ...], info: os.stat_result
) -> Iterator[PathChange]:
    real = zone.joinpath(*parts)
    mine = copy.joinpath(*parts)
    before = _lstat(real)
    if not stat.S_ISDIR(info.st_mode):
        yield from reader.single(mine, real, parts, info, before)
    elif before is not None and stat.S_ISDIR(before.st_mode):
        if stat.S_IMODE(before.st_mode) != stat.S_IMODE(info.st_mode):
            yield PathChange(str(zone), parts, entry_of(real, before), entry_of(mine, info))
    else:
        old = entry_of(real, before, content=False) if before else None
        yield PathChange(str(zone), parts, old, entry_of(mine, info))


def _deleted(zone: Path, parts: tuple[str, ...]) -> Iterator[PathChange]:
    real = zone.joinpath(*parts)
    info = _lstat(real)
    if info is not None:
        yield PathChange(str(zone), parts, entry_of(real, info, content=False), None)


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
