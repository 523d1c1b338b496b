"""A scan for protected names in writable folders, before and after a command.

Names that the command made are renamed.
"""

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
"""Nanoseconds after which a change updates the time of a folder on every file system."""

_protects = lru_cache(maxsize=32768)(is_protected)
REMOVED = "removed-by-forge"


class _Folder(Struct, frozen=True):
    """The names found in a folder, with its state at that time."""

    stamp: tuple[int, int, int]
    folders: tuple[str, ...]
    protected: tuple[str, ...]


class ProtectedScan:
    """A search for protected names; a folder that has not changed is not read again."""

    def __init__(self) -> None:
        self._known: dict[str, _Folder] = {}

    def names(self, roots: Iterable[str], apart: frozenset[str]) -> Iterator[str]:
        """Yield the protected paths below the roots, upper levels first, but not in ``apart``."""
        known: dict[str, _Folder] = {}
        folders = deque((root, False) for root in dict.fromkeys(roots))
        while folders:
            path, in_packages = folders.popleft()
            found = self._look(path, in_packages=in_packages)
            if found is not None:
                known[path] = found
                yield from found.protected
                is_package = in_packages or os.path.basename(path) in PACKAGES
                for folder in found.folders:
                    if folder not in apart:
                        folders.append((folder, is_package))
        self._known = known

    def _look(self, path: str, *, in_packages: bool) -> _Folder | None:
        try:
            info = os.lstat(path)
            stamp = (info.st_dev, info.st_ino, info.st_ctime_ns)
            known = self._known.get(path)
            if known is not None and known.stamp == stamp:
                return known
            # A folder that changed just now may change again at the same time: no state equals
            # zeros.
            settled = time.time_ns() - info.st_ctime_ns > _SETTLED
            return _read(path, stamp if settled else (0, 0, 0), in_packages=in_packages)
        except OSError:
            return None


def with_folders(names: Collection[str]) -> frozenset[tuple[str, int]]:
    """Return each name with its folder's inode number, which differs for a folder made anew."""
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
    """Rename a file or folder and return its new name; None if it is gone or behind a link."""
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
    """Open a path without following links; raise a ToolError if it is, or is behind, a link."""
    path = str(place)
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise ToolError(
            f"nothing was started: {shown(path)} cannot be confined: {error.strerror}"
        ) from None
    # O_NOFOLLOW only checks the last name, so that links on the way are found like this.
    if os.readlink(f"/proc/self/fd/{descriptor}") != path or stat.S_ISLNK(
        os.fstat(descriptor).st_mode
    ):
        os.close(descriptor)
        raise ToolError(f"nothing was started: {shown(path)} became a link, or is behind a new one")
    return descriptor
