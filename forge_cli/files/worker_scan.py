"""Worker files in folders, found by their content and checked again after changes."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from forge_cli.core.errors import ForgeError
from forge_cli.files.lookup import SUFFIXES
from forge_cli.files.worker import Worker, load_worker

_SKIPPED = frozenset(
    (
        *(
            ".git",
            "__pycache__",
            "node_modules",
            "bower_components",
            "site-packages",
            "dist-packages",
        ),
        *(".venv", ".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache"),
    )
)
_MAX_FOLDERS = 20_000
_MAX_BYTES = 256 * 1024
_NAMES_CODE = re.compile(rb"""(?m)^["']?(?:toolsets|plugins)["']?\s*:|\A\s*\{""")
_SETTLED = 100_000_000
"""Nanoseconds after which every file system shows a change in its times."""
Stamp = tuple[int, int, int]


class _Seen(Struct, frozen=True):
    stamp: Stamp
    folders: tuple[str, ...]
    files: tuple[str, ...]


_folders: dict[str, _Seen] = {}
_workers: dict[str, tuple[Stamp, Worker | None]] = {}


def workers_below(roots: Iterable[Path]) -> Iterator[Worker]:
    """Yield workers whose files name code, upper folders first, in a limited number of folders."""
    folders = deque(dict.fromkeys(map(str, roots)))
    seen = set(folders)
    for _ in range(_MAX_FOLDERS):
        if not folders:
            return
        found = _look(folders.popleft())
        if found is None:
            continue
        for file in found.files:
            if worker := _read(file):
                yield worker
        folders.extend(folder for folder in found.folders if folder not in seen)
        seen.update(found.folders)


def _stamp(info: os.stat_result) -> Stamp:
    """Return the state of a file or folder; zeros if a further change might not show yet."""
    if time.time_ns() - info.st_ctime_ns <= _SETTLED:
        return 0, 0, 0
    return info.st_ino, info.st_ctime_ns, info.st_size


def _look(path: str) -> _Seen | None:
    try:
        stamp = _stamp(os.lstat(path))
        known = _folders.get(path)
        if known is not None and known.stamp == stamp and any(stamp):
            return known
        folders: list[str] = []
        files: list[str] = []
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name.endswith(SUFFIXES):
                    files.append(entry.path)
                elif entry.name not in _SKIPPED and entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
    except OSError:
        return None
    found = _folders[path] = _Seen(stamp, tuple(folders), tuple(files))
    return found


def _read(file: str) -> Worker | None:
    try:
        info = os.stat(file)
    except OSError:
        return None
    stamp = _stamp(info)
    known = _workers.get(file)
    # Zeros mean too new to be known again by its times.
    if known is None or known[0] != stamp or not any(stamp):
        known = _workers[file] = stamp, _load(file, info.st_size)
    return known[1]


def _load(file: str, size: int) -> Worker | None:
    if size > _MAX_BYTES or not os.path.isfile(file):
        return None
    with suppress(OSError, ForgeError):
        with open(file, "rb") as opened:
            content = opened.read()
        # A search in the bytes spares most files the YAML parser.
        if _NAMES_CODE.search(content):
            return load_worker(file)
    return None
