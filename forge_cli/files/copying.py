"""Copies of file contents: with shared blocks, else by the kernel, else piece by piece."""

from __future__ import annotations

import errno
import fcntl
import os
import sys
from collections.abc import Callable, Iterator

# FICLONE in linux/fs.h; on other systems the call fails, and the content is copied.
_FICLONE = 0x40049409
_CANNOT = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM})
"""Errors of a kernel or file system that does not support a way to copy, at least not here."""
_PIECE = 1 << 20

_Way = Callable[[int, int, int, int], int]
"""Copies at most so many bytes at a place between two descriptors; returns the number copied."""


def copy_content(source: int, target: int) -> None:
    """Copy the content of a file to an empty file on any file system; holes stay holes."""
    if clone_file(source, target):
        return
    size = os.fstat(source).st_size
    ways = list(_WAYS)
    for begin, end in _written(source, size):
        at = begin
        while at < end:
            at += _copy_piece(ways, source, target, at, end - at)
    # A hole at the end was not copied, but is a part of the size.
    os.ftruncate(target, size)


def clone_file(source: int, target: int) -> bool:
    """Copy a whole file at once by sharing blocks; return False if that is impossible."""
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


def _written(source: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the begin and end of each part of a file that is not a hole."""
    at = 0
    while at < size:
        try:
            begin = os.lseek(source, at, os.SEEK_DATA)
            end = os.lseek(source, begin, os.SEEK_HOLE)
        except OSError as error:
            # ENXIO: there is only a hole up to the end of the file.
            if error.errno == errno.ENXIO:
                return
            # Other file systems do not know holes.
            begin = at
            end = size
        yield begin, min(end, size)
        at = end


def _copy_piece(ways: list[_Way], source: int, target: int, at: int, size: int) -> int:
    """Copy some bytes with the first way that works; remove failing ways from ``ways``."""
    while True:
        try:
            copied = ways[0](source, target, at, size)
        except OSError as error:
            if error.errno not in _CANNOT or len(ways) == 1:
                raise
            copied = 0
        if copied:
            return copied
        if len(ways) == 1:
            raise OSError(errno.ESTALE, "the file became shorter while it was copied")
        # Some file systems copy nothing and report no error.
        del ways[0]


def _by_hand(source: int, target: int, at: int, size: int) -> int:
    return os.pwrite(target, os.pread(source, min(size, _PIECE), at), at)


if sys.platform == "linux":

    def _by_range(source: int, target: int, at: int, size: int) -> int:
        return os.copy_file_range(source, target, size, at, at)

    def _by_sending(source: int, target: int, at: int, size: int) -> int:
        # sendfile takes a place for its source only, and writes at the current position.
        os.lseek(target, at, os.SEEK_SET)
        return os.sendfile(target, source, at, size)

    _WAYS: tuple[_Way, ...] = (_by_range, _by_sending, _by_hand)
else:
    _WAYS = (_by_hand,)
