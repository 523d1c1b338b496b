"""Protected files with other names (hard links): writing to such a name changes the file."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

MAX_SCANNED = 2_000
"""The number of entries of protected folders that are examined, upper levels first."""
_OBJECTS = "objects"
"""The folder whose files git shares between clones, and checks by their names."""


def find_shared(paths: Iterable[Path | str]) -> Iterator[Path]:
    """Yield the files with several names among the paths and inside folders among them."""
    folders: deque[str] = deque()
    for path in dict.fromkeys(map(str, paths)):
        try:
            info = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISDIR(info.st_mode):
            folders.append(path)
        elif _is_shared(info):
            yield Path(path)
    left = MAX_SCANNED
    while folders and left > 0:
        for entry in _entries(folders.popleft()):
            left -= 1
            try:
                if entry.is_dir(follow_symlinks=False):
                    # Entering the objects of git would take long, and a changed object is useless
                    # to an attacker.
                    if not _holds_objects(entry.path):
                        folders.append(entry.path)
                elif _is_shared(entry.stat(follow_symlinks=False)):
                    yield Path(entry.path)
            except OSError:
                continue


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _is_shared(info: os.stat_result) -> bool:
    return stat.S_ISREG(info.st_mode) and info.st_nlink > 1


def _holds_objects(folder: str) -> bool:
    around, name = os.path.split(folder)
    return name == _OBJECTS and os.path.exists(os.path.join(around, "HEAD"))
