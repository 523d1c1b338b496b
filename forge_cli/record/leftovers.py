"""What a killed process left among the sessions: locks that nobody has, copies not finished, answers, empty logs."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from forge_cli.files.lock import acquire
from forge_cli.record.answers import ANSWER, answer_file
from forge_cli.record.index import FILE as INDEX
from forge_cli.record.lock import LOCK, lock_file
from forge_cli.record.log import SUFFIX, beside

_PART = ".part"


def part_file(path: Path) -> str:
    """Where the first lines of a log are written before it has its name."""
    return beside(path, _PART)


def sweep(folder: Path) -> None:
    """Remove what belongs to nobody; whatever a living process has is left alone, and so is what cannot be removed."""
    with suppress(OSError):
        for path in _owners(folder):
            with suppress(OSError):
                _sweep_one(path)
        for part in folder.glob(f".{INDEX}.*"):  # whoever writes one now does without an index
            part.unlink()


def _owners(folder: Path) -> set[Path]:
    """The logs, there or not, that something may be left of."""
    found = set[Path]()
    with os.scandir(folder) as entries:
        for entry in entries:
            for ending in (LOCK, _PART, ANSWER):
                if entry.name.startswith(".") and entry.name.endswith(ending):
                    found.add(folder / entry.name[1 : -len(ending)])
            if entry.name.endswith(SUFFIX) and _is_empty(Path(entry.path)):
                found.add(Path(entry.path))
    return found


def _sweep_one(path: Path) -> None:
    descriptor = acquire(lock_file(path), wait=False)
    try:
        with suppress(FileNotFoundError):
            os.unlink(part_file(path))
        answer_file(path).unlink(missing_ok=True)
        if _is_empty(path):
            path.unlink()
        os.unlink(lock_file(path))
    finally:
        os.close(descriptor)


def _is_empty(path: Path) -> bool:
    """Is it a log in which nothing was ever written?"""
    try:
        info = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(info.st_mode) and not info.st_size
