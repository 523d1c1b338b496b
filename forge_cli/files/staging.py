"""Temporary folders that are removed at the end, or by the next process after a crash."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from forge_cli.files.home import make_private

_NAME = re.compile(r"\.forge-[0-9a-f]{16}\.tmp")
"""The names of forge's temporary files, which ``forge doctor --clean`` finds."""


@contextmanager
def staging_folder(root: Path) -> Iterator[Path]:
    """Make a locked empty folder in ``root``, and ``root`` itself if it is missing.

    A new ``root`` that is empty at the end is removed as well.
    """
    is_new = not root.exists()
    make_private(root)
    _sweep(root)
    place, descriptor = _make(root)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(descriptor)
        if is_new:
            with suppress(OSError):
                root.rmdir()


def _make(root: Path) -> tuple[Path, int]:
    while True:
        place = root / f".forge-{secrets.token_hex(8)}.tmp"
        place.mkdir(mode=0o700)
        with suppress(FileNotFoundError):  # another process swept it before it was locked
            descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Without a name it was swept between opening and locking.
            if os.fstat(descriptor).st_nlink:
                return place, descriptor
            os.close(descriptor)


def _sweep(root: Path) -> None:
    with suppress(OSError):
        for name in os.listdir(root):
            if _NAME.fullmatch(name):
                remove_stale_folder(root / name)


def remove_stale_folder(place: Path) -> bool:
    """Remove a folder unless a process is using it; return True if it is gone."""
    with suppress(OSError):
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(place)
            return True
        finally:
            os.close(descriptor)
    return False
