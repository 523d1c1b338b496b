"""Regular files: opened without blocking, and synced against power cuts."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterable
from io import BufferedReader
from pathlib import Path

_CANNOT = {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS}
# macOS has no fdatasync.
_sync = os.fsync if sys.platform == "darwin" else os.fdatasync


def sync_data(descriptor: int) -> None:
    """Sync the content of a file; a file system that cannot do that is not an error."""
    try:
        _sync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise


def sync_folder(folder: Path | str, *, within: int | None = None) -> None:
    """Sync the names in a folder; ``within`` is an open parent folder."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=within)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
    finally:
        os.close(descriptor)


def sync_folders_of(paths: Iterable[Path]) -> None:
    """Sync the names in the folder of each path, or in its nearest existing parent."""
    folders: set[Path] = set()
    for path in paths:
        folder = path.parent
        while not folder.is_dir() and folder != folder.parent:
            folder = folder.parent
        folders.add(folder)
    for folder in sorted(folders):
        sync_folder(folder)


class NotRegularError(OSError):
    """A pipe, device or socket, whose reading could block or never end."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(errno.EINVAL, "it is not a regular file", str(path))


def open_regular(path: str | Path) -> BufferedReader:
    """Open a regular file for reading; raise IsADirectoryError for a folder."""
    # Opening must not wait for the other end of a pipe, nor make a terminal the controlling one.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise NotRegularError(path)
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: str | Path, limit: int = -1) -> bytes:
    """Return the content of a regular file, or its first ``limit`` bytes."""
    with open_regular(path) as file:
        return file.read(limit)
