"""Files shared by processes: locks, and lines that are appended completely or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from forge_cli.files.regular import sync_data, sync_folder

# O_NONBLOCK: opening a pipe of that name must not wait for its other end.
_APPENDING = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_BLOCK = 1 << 16
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TRIES = 100
_PAUSE = 0.02


def acquire_file_lock(
    file: str | Path, *, shared: bool = False, wait: bool | float = True, create: bool = True
) -> int:
    """Open a file and lock it until its descriptor is closed.

    If the file was replaced or removed meanwhile, the new one is locked. Raise BlockingIOError if
    another process has the lock, unless ``wait`` is True or its seconds are enough.
    """
    # flock waits without a limit or not at all, so a deadline needs repeated attempts.
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    if wait is not True:
        how |= fcntl.LOCK_NB
    flags = _FLAGS
    if create:
        flags |= os.O_CREAT
    # A bool counts as 1 or 0 seconds: True never looks at the deadline, False has reached it.
    end = time.monotonic() + wait
    for _ in range(_TRIES):
        descriptor = os.open(file, flags, 0o600)
        try:
            opened = os.fstat(descriptor)
            if not stat.S_ISREG(opened.st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            while not _flock(descriptor, how, end):
                time.sleep(_PAUSE)
            if _is_at(file, opened):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise OSError(errno.EBUSY, "it is replaced repeatedly")


@contextmanager
def hold_file_lock(
    file: str | Path, *, shared: bool = False, wait: bool | float = True, create: bool = True
) -> Iterator[int]:
    """Hold the lock of a file inside the block; the descriptor is returned."""
    descriptor = acquire_file_lock(file, shared=shared, wait=wait, create=create)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _flock(descriptor: int, how: int, end: float) -> bool:
    try:
        fcntl.flock(descriptor, how)
    except BlockingIOError:
        if time.monotonic() >= end:
            raise
        return False
    return True


def _is_at(file: str | Path, opened: os.stat_result) -> bool:
    try:
        return os.path.samestat(opened, os.stat(file, follow_symlinks=False))
    except FileNotFoundError:
        return False


class FileSpoilt(OSError):
    """A file is not as its writer left it; ``what`` names the change, such as ``removed``."""

    def __init__(self, what: str, path: Path) -> None:
        super().__init__(errno.ESTALE, f"it was {what} while it was written", str(path))
        self.what = what


class LineFile:
    """A file of lines for one writer with a lock; the first append removes an incomplete line."""

    def __init__(self, path: Path, whole: int | None = None, *, mode: int = 0o600) -> None:
        """Open the file; ``whole`` is the end of the last complete line, if known."""
        self.path = path
        self._fd = os.open(path, _APPENDING, mode)
        size = os.fstat(self._fd).st_size
        self.size = _whole(self._fd, size) if whole is None else whole
        """The size of the complete lines in bytes."""
        self._torn = size > self.size
        self._new = not size
        self.unsynced = False
        """True if written data may not be on the disk yet."""

    def append(self, data: bytes) -> None:
        """Append complete lines; after an OSError none of them remains."""
        if self._torn:
            os.ftruncate(self._fd, self.size)
            self._torn = False
        self._check()
        try:
            # A regular file takes less than it was given only if there is no room.
            if os.write(self._fd, data) < len(data):
                raise OSError(errno.ENOSPC, "the disk is full")
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._fd, self.size)
            raise
        self.size += len(data)
        self.unsynced = True

    def _check(self) -> None:
        """Raise FileSpoilt if another process removed, replaced or changed the file."""
        found = os.fstat(self._fd)
        if not found.st_nlink:
            raise FileSpoilt("removed", self.path)
        if found.st_size != self.size:
            raise FileSpoilt("changed by somebody else", self.path)

    def sync(self) -> None:
        """Wait until all data is on the disk, and the name of a new file as well."""
        self.unsynced = False
        sync_data(self._fd)
        if self._new:
            sync_folder(self.path.absolute().parent)
            self._new = False

    def close(self) -> None:
        os.close(self._fd)


def _whole(descriptor: int, size: int) -> int:
    """Return the end of the last complete line."""
    while size:
        start = max(0, size - _BLOCK)
        if (found := os.pread(descriptor, size - start, start).rfind(b"\n")) >= 0:
            return start + found + 1
        size = start
    return 0
