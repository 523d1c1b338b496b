"""Locks on files, between processes: one writer or several readers; a process that dies lets go of its lock."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TRIES = 100


def acquire(file: str | Path, *, shared: bool = False, wait: bool = True, create: bool = True) -> int:
    """The descriptor of a file that stays locked until it is closed.

    A file that somebody replaced or removed meanwhile is opened again: the lock is that of the file which has this
    name now. Where another process has it and this one is not to ``wait``, it is a BlockingIOError.
    """
    how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
    for _ in range(_TRIES):
        descriptor = os.open(file, _FLAGS | (os.O_CREAT if create else 0), 0o600)
        try:
            opened = os.fstat(descriptor)
            if not stat.S_ISREG(opened.st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            fcntl.flock(descriptor, how)
            if _is_at(file, opened):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise OSError(errno.EBUSY, "it is replaced again and again")


@contextmanager
def locked(file: str | Path, *, shared: bool = False, wait: bool = True, create: bool = True) -> Iterator[int]:
    """Hold the lock of a file, whose descriptor is given, to the end of the block."""
    descriptor = acquire(file, shared=shared, wait=wait, create=create)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_at(file: str | Path, opened: os.stat_result) -> bool:
    try:
        return os.path.samestat(opened, os.stat(file, follow_symlinks=False))
    except FileNotFoundError:
        return False
