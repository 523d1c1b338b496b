"""Reading a file by a name that may be that of a pipe or a device: those are refused, and never waited for."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_regular(file: Path) -> bytes:
    """The content of a regular file; anything else is an OSError."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(file))
        return stream.read()
