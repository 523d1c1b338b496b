"""A place: a file, or a name for one, held by the descriptor of the folder it is in."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from forge_cli.core.sandbox import FileKind
from forge_cli.core.zones import Zone
from forge_cli.files.sync import sync_folder
from forge_cli.sandbox.files.virtual import virtual

# Passing through a folder needs no right to list it; only Linux has a flag that says so.
FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Place:
    """A file, or a name for one, held by the descriptor of the folder it is in."""

    zone: Zone
    parts: tuple[str, ...]
    """Below the zone's root; empty for the root itself."""
    folder: int
    missing: tuple[str, ...]
    """The folders that would have to be made between ``folder`` and the file."""
    info: os.stat_result | None
    links: tuple[Path, ...] = ()

    @property
    def name(self) -> str:
        return self.parts[-1] if self.parts else "."

    @property
    def virtual(self) -> str:
        return virtual(self.zone, self.parts)

    @property
    def real(self) -> Path:
        return self.zone.path.joinpath(*self.parts)

    @property
    def kind(self) -> FileKind | None:
        """The root of a zone is a folder, even if it is not made yet."""
        if not self.parts:
            return "directory"
        return None if self.info is None else kind_of(self.info.st_mode)


Identity = tuple[int, int]
"""The device and the number of a file: what it is on disk, under any name."""


FileState = tuple[int, int, int]
"""A file on disk as it was at one moment: writing, linking or replacing it makes another state."""


def identity_of(info: os.stat_result) -> Identity:
    return info.st_dev, info.st_ino


def state_of(info: os.stat_result | None) -> FileState | None:
    """None where there is nothing."""
    return None if info is None else (info.st_dev, info.st_ino, info.st_ctime_ns)


def kind_of(mode: int) -> FileKind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "special"


@contextmanager
def open_for_listing(folder: int, name: str = ".") -> Iterator[int]:
    """A descriptor by which a folder can be listed: ``folder`` itself, or the one called ``name`` in it."""
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def make_parent(place: Place) -> Iterator[int]:
    """The folder that a file is to be written into, made step by step where it is missing."""
    folder = os.dup(place.folder)
    try:
        for name in place.missing:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
                sync_folder(".", within=folder)
            below = os.open(name, FOLDER_FLAGS, dir_fd=folder)
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)
