"""What a killed process left among the sessions: locks that nobody has, answers, half a copy, empty logs."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from forge_cli.files.lock import acquire
from forge_cli.files.replace import sweep_folder
from forge_cli.record.lock import lock_file
from forge_cli.record.log import SUFFIX


def sweep(folder: Path) -> None:
    """Remove what belongs to nobody; whatever a living process has is left alone, and so is what cannot be removed."""
    with suppress(OSError):
        for log, left in _leftovers(folder).items():
            with suppress(OSError):
                _sweep_one(log, left)
        sweep_folder(folder)


def _leftovers(folder: Path) -> dict[Path, list[str]]:
    """What may be left, by the logs, there or not, that it lies beside."""
    found: dict[Path, list[str]] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            name, suffix, _ = entry.name.rpartition(f"{SUFFIX}.")
            if suffix and name.startswith("."):
                found.setdefault(folder / f"{name[1:]}{SUFFIX}", []).append(entry.path)
            elif entry.name.endswith(SUFFIX) and _is_empty(Path(entry.path)):
                found.setdefault(Path(entry.path), []).append(entry.path)
    return found


def _sweep_one(log: Path, left: list[str]) -> None:
    descriptor = acquire(lock_file(log), wait=False)
    try:
        for path in left:
            if path != str(log) or _is_empty(log):
                Path(path).unlink(missing_ok=True)
        Path(lock_file(log)).unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _is_empty(path: Path) -> bool:
    """Is it a log in which nothing was ever written?"""
    try:
        info = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(info.st_mode) and not info.st_size
