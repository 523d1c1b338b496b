"""Copying what a file holds: at once where two files can share it, else by the kernel, else piece by piece."""

from __future__ import annotations

import errno
import fcntl
import os
import sys
from collections.abc import Callable, Iterator

_FICLONE = 0x40049409
_CANNOT = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM})
"""Errors by which a kernel or a file system says that it does not know this way, at least not between these two."""
_PIECE = 1 << 20

_Way = Callable[[int, int, int, int], int]
"""Copy from one descriptor to another, at this place, so many bytes at most; gives how many there were."""


def copy_content(source: int, target: int) -> None:
    """Give an empty file the content of another, in any file systems; both are descriptors, and holes stay holes."""
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
    """Give an empty file the content of another, of any size and at once; False where the two cannot share blocks."""
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


def _written(source: int, size: int) -> Iterator[tuple[int, int]]:
    """The parts of a file that are not holes, each with its begin and end."""
    at = 0
    while at < size:
        try:
            begin = os.lseek(source, at, os.SEEK_DATA)
            end = os.lseek(source, begin, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole behind
                return
            begin = at  # its file system does not tell
            end = size
        yield begin, min(end, size)
        at = end


def _copy_piece(ways: list[_Way], source: int, target: int, at: int, size: int) -> int:
    """Copy some bytes by the first way that works; those that do not are taken out of ``ways``."""
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
            raise OSError(errno.ESTALE, "it became shorter while it was copied")
        del ways[0]  # some file systems copy nothing, and do not say why


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
