"""Files by names that others chose: opened without waiting for anybody, and only where they are regular files."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path


class NotRegularError(OSError):
    """A pipe, a device or a socket: reading it could block, or never end."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(errno.EINVAL, "it is not a regular file", str(path))


def open_regular(path: str | Path) -> BufferedReader:
    """Open anything at a path for reading; a folder is an IsADirectoryError."""
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
    """The content of a file, or its first ``limit`` bytes."""
    with open_regular(path) as file:
        return file.read(limit)
