"""Cloning a file of any size, at once and without room of its own, where the file system lets two share blocks."""

from __future__ import annotations

import fcntl
import shutil
from io import BufferedReader

_FICLONE = 0x40049409


def clone(source: int, target: int) -> bool:
    """Give an empty file the content of another; False where the file system, or the machine, cannot share it."""
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


def fill(target: int, source: BufferedReader) -> None:
    """Clone a file, or copy it where that is not possible."""
    if not clone(source.fileno(), target):
        with open(target, "wb", closefd=False) as file:
            shutil.copyfileobj(source, file)
