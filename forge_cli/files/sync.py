"""Making what was written last: after a power cut it is still there."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

_CANNOT = {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS}
_sync = os.fsync if sys.platform == "darwin" else os.fdatasync


def sync_data(descriptor: int) -> None:
    """Wait until what was written to a file is on the disk; a file system that cannot do that is not an error."""
    try:
        _sync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise


def sync_folder(folder: Path | str, *, within: int | None = None) -> None:
    """The same for the names in a folder, which may be named relative to an open one."""
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
