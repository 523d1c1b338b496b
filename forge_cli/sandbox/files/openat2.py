"""Opening a folder some names below another, following no link: in one call where the kernel can, else step by step."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from functools import cache

# Passing through a folder needs no right to list it; only Linux has a flag that says so.
FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_OPENAT2 = 437
_MACHINES = frozenset({"x86_64", "aarch64"})
_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_HOW = _How(FOLDER_FLAGS, 0, _BENEATH | _NO_LINKS | _NO_MAGIC_LINKS)


def open_folder(names: Sequence[str], *, at: int) -> int:
    """The folder that plain names lead to from an open one; an OSError where one of them is a link or not a folder."""
    found = try_openat2(names, at=at)
    return _step_by_step(names, at) if found is None else found


def try_openat2(names: Sequence[str], *, at: int) -> int | None:
    """The same in one call; None where the kernel has none, or refuses: walking there says why."""
    if not names or not has_openat2():
        return None
    try:
        return _openat2(names, at)
    except OSError:
        return None


@cache
def has_openat2() -> bool:
    """Whether this machine has openat2; looked for and tried once."""
    if sys.platform != "linux" or os.uname().machine not in _MACHINES:
        return False
    folder = os.open("/", FOLDER_FLAGS)
    try:
        os.close(_openat2(["."], folder))
    except OSError:
        return False
    finally:
        os.close(folder)
    return True


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _openat2(names: Sequence[str], at: int) -> int:
    """The kernel itself sees to it that nothing on the way is a link or leads out."""
    path = os.fsencode("/".join(names))
    how, size = ctypes.byref(_HOW), ctypes.c_size_t(ctypes.sizeof(_HOW))
    descriptor: int = _library().syscall(ctypes.c_long(_OPENAT2), ctypes.c_int(at), path, how, size)
    if descriptor < 0:
        problem = ctypes.get_errno()
        raise OSError(problem, os.strerror(problem))
    return descriptor


def _step_by_step(names: Sequence[str], at: int) -> int:
    folder = os.open(".", FOLDER_FLAGS, dir_fd=at)
    for name in names:
        try:
            below = os.open(name, FOLDER_FLAGS, dir_fd=folder)
        finally:
            os.close(folder)
        folder = below
    return folder
