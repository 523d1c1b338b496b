"""Opening a folder some names below another, following no link: in one call where the kernel can, else step by step."""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

# Passing through a folder needs no right to list it; only Linux has a flag that says so.
FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_OPENAT2 = 437
_MACHINES = frozenset({"x86_64", "aarch64"})
_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08


# struct open_how of the kernel: flags, mode, resolve
_BELOW = struct.pack("QQQ", FOLDER_FLAGS, 0, _BENEATH | _NO_LINKS | _NO_MAGIC_LINKS)
_ANYWHERE = struct.pack("QQQ", FOLDER_FLAGS, 0, _NO_LINKS | _NO_MAGIC_LINKS)
_HERE = -100
"""For the kernel: relative to the working directory, which an absolute path is not."""


def open_folder(names: Sequence[str], *, at: int) -> int:
    """The folder that plain names lead to from an open one; an OSError where one of them is a link or not a folder."""
    found = try_openat2(names, at=at)
    return _step_by_step(names, at) if found is None else found


def try_openat2(names: Sequence[str], *, at: int) -> int | None:
    """The same in one call; None where the kernel has none, or refuses: walking there says why."""
    if not names or not has_openat2():
        return None
    descriptor = _openat2("/".join(names), at, _BELOW)
    return None if descriptor < 0 else descriptor


def try_absolute(path: str) -> int | None:
    """The folder at an absolute path in which no name is ``..``; None where the kernel has no such call, or refuses."""
    if not has_openat2():
        return None
    descriptor = _openat2(path, _HERE, _ANYWHERE)
    return None if descriptor < 0 else descriptor


@cache
def has_openat2() -> bool:
    """Whether this machine has openat2; looked for and tried once."""
    if sys.platform != "linux" or os.uname().machine not in _MACHINES:
        return False
    folder = os.open("/", FOLDER_FLAGS)
    descriptor = _openat2(".", folder, _BELOW)
    os.close(folder)
    if descriptor < 0:
        return False
    os.close(descriptor)
    return True


@cache
def _syscall() -> Any:
    import ctypes

    function = ctypes.CDLL(None).syscall
    function.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)
    return function


def _openat2(path: str, at: int, how: bytes) -> int:
    """A descriptor, or less than 0; the kernel itself sees to it that nothing on the way is a link or leads out."""
    descriptor: int = _syscall()(_OPENAT2, at, os.fsencode(path), how, len(how))
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
