"""Protected names in writable folders: looked up before and after a command, and set aside where it made them."""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

from msgspec import Struct

from forge_cli.core.errors import ToolError
from forge_cli.sandbox.names import folded, shown
from forge_cli.sandbox.protected import PACKAGES, PAIRED, is_protected

_SETTLED = 100_000_000
"""Nanoseconds after which a change of a folder shows in its time on every file system."""

_protects = lru_cache(maxsize=32768)(is_protected)
REMOVED = "removed-by-forge"


class _Folder(Struct, frozen=True):
    """The names found in a folder, and when: a change of them changes that time, too."""

    stamp: tuple[int, int, int]
    folders: tuple[str, ...]
    protected: tuple[str, ...]


class ProtectedScan:
    """Finds protected names; a folder that has not changed since is not read again."""

    def __init__(self) -> None:
        self._known: dict[str, _Folder] = {}

    def names(self, roots: Iterable[str], apart: frozenset[str]) -> Iterator[str]:
        """The paths of all in the folders, upper levels first; ``apart`` are folders that are not entered."""
        known: dict[str, _Folder] = {}
        folders = deque((root, False) for root in dict.fromkeys(roots))
        while folders:
            path, in_packages = folders.popleft()
            found = self._look(path, in_packages=in_packages)
            if found is not None:
                known[path] = found
                yield from found.protected
                below = (folder for folder in found.folders if folder not in apart)
                folders.extend(
                    (folder, in_packages or os.path.basename(folder) in PACKAGES)
                    for folder in below
                )
        self._known = known

    def _look(self, path: str, *, in_packages: bool) -> _Folder | None:
        try:
            info = os.lstat(path)
            stamp = (info.st_dev, info.st_ino, info.st_ctime_ns)
            known = self._known.get(path)
            if known is not None and known.stamp == stamp:
                return known
            settled = time.time_ns() - info.st_ctime_ns > _SETTLED
            return _read(path, stamp if settled else (0, 0, 0), in_packages=in_packages)
        except OSError:
            return None


def with_folders(names: Collection[str]) -> frozenset[tuple[str, int]]:
    """Each name with the number of its folder: one that was moved away, and made again in its place, has another."""
    numbers = {folder: _number(folder) for folder in {os.path.dirname(name) for name in names}}
    return frozenset((name, numbers[os.path.dirname(name)]) for name in names)


def _number(folder: str) -> int:
    try:
        return os.lstat(folder).st_ino
    except OSError:
        return 0


def _read(path: str, stamp: tuple[int, int, int], *, in_packages: bool) -> _Folder:
    folders: list[str] = []
    protected: list[str] = []
    above, own = os.path.split(path)
    outer = os.path.basename(above)
    around = own if folded(own) in PAIRED else ""
    if around and folded(outer) in PAIRED:
        around = f"{outer}/{own}"
    with os.scandir(path) as entries:
        for entry in entries:
            if _protects(entry.name, around, in_packages=in_packages):
                protected.append(entry.path)
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
    return _Folder(stamp, tuple(folders), tuple(protected))


def set_aside(path: Path) -> str | None:
    """Rename a file or folder, and give its new name; None where it is gone, or cannot be reached safely."""
    name = f"{REMOVED}.{path.name.lstrip('.')}.{uuid4().hex[:8]}"
    try:
        folder = open_exactly(path.parent)
    except ToolError:
        return None
    try:
        os.rename(path.name, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        return None
    finally:
        os.close(folder)
    return name


def open_exactly(place: Path) -> int:
    """A descriptor of the place itself; a link in it, or in place of it, starts nothing."""
    path = str(place)
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise ToolError(
            f"nothing was started: {shown(path)} cannot be confined: {error.strerror}"
        ) from None
    if os.readlink(f"/proc/self/fd/{descriptor}") != path or stat.S_ISLNK(
        os.fstat(descriptor).st_mode
    ):
        os.close(descriptor)
        raise ToolError(
            f"nothing was started: {shown(path)} is a link, or behind one, since a moment ago"
        )
    return descriptor
