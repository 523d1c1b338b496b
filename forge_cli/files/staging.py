"""Folders for what is not complete yet: removed when they are left, and those of killed processes by the next one."""

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
"""As temporary files of forge are called, so that ``forge doctor --clean`` finds it."""


@contextmanager
def staging_folder(root: Path) -> Iterator[Path]:
    """Make an empty folder, which is locked as long as this process works with it; so is ``root`` where it is missing.

    A ``root`` that was made for it, and is empty in the end, is removed as well.
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
    """Remove a folder unless a process is using it right now; returns whether it is gone."""
    with suppress(OSError):
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(place)
            return True
        finally:
            os.close(descriptor)
    return False
