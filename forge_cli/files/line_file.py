"""A file that lines are appended to: each is there as a whole or not at all; no other process writes between them."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from forge_cli.files.sync import sync_data, sync_folder

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_BLOCK = 1 << 16


class FileSpoilt(OSError):
    """A file is not what its writer left: ``what`` says what happened to it."""

    def __init__(self, what: str, path: Path) -> None:
        super().__init__(errno.ESTALE, f"it was {what} while it was written", str(path))
        self.what = what


class LineFile:
    """For one writer at a time, who has a lock; half a line that a crash has left goes with the first append."""

    def __init__(self, path: Path, whole: int | None = None, *, mode: int = 0o600) -> None:
        """``whole`` are the bytes up to the end of the last whole line, where that is known."""
        self.path = path
        self._fd = os.open(path, _FLAGS, mode)
        size = os.fstat(self._fd).st_size
        self.size = _whole(self._fd, size) if whole is None else whole
        """Bytes of whole lines."""
        self._torn, self._new = size > self.size, not size
        self.unsynced = False
        """Was something written that the disk may not have yet?"""

    def append(self, data: bytes) -> None:
        """Write whole lines; an OSError where that cannot be done, and then there is nothing of them."""
        if self._torn:
            os.ftruncate(self._fd, self.size)
            self._torn = False
        self._check()
        try:
            if os.write(self._fd, data) < len(data):
                raise OSError(errno.ENOSPC, "the disk is full")
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._fd, self.size)
            raise
        self.size += len(data)
        self.unsynced = True

    def _check(self) -> None:
        """Check that no other process has removed, replaced or changed it."""
        found = os.fstat(self._fd)
        if not found.st_nlink:
            raise FileSpoilt("removed", self.path)
        if found.st_size != self.size:
            raise FileSpoilt("changed by somebody else", self.path)

    def sync(self) -> None:
        """Wait until all that was written is on the disk, and the name of a new file as well."""
        self.unsynced = False
        sync_data(self._fd)
        if self._new:
            sync_folder(self.path.absolute().parent)
            self._new = False

    def close(self) -> None:
        os.close(self._fd)


def _whole(descriptor: int, size: int) -> int:
    """The bytes up to the end of the last whole line."""
    while size:
        start = max(0, size - _BLOCK)
        if (found := os.pread(descriptor, size - start, start).rfind(b"\n")) >= 0:
            return start + found + 1
        size = start
    return 0
