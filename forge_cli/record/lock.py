"""The lock of a session: one process works on a log at a time, and another one is told which."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from forge_cli.core.errors import ForgeError
from forge_cli.files.lock import acquire, locked
from forge_cli.files.regular import read_regular
from forge_cli.record.log import beside

LOCK = ".lock"
_TRIES, _PAUSE = 25, 0.02


class SessionBusy(ForgeError):
    """Another process works on this session."""


def lock(path: Path, hint: str = "wait for it to end, or start a copy with --fork") -> int:
    """Hold the lock of a log; its file, beside the log, names the process that has it.

    A process that has it without a name is about to write it, or only looks whether it is free, so it is tried again.
    A full disk has no room for the name: then the process that waits is not told which one has it.
    """
    for _ in range(_TRIES):
        try:
            descriptor = acquire(lock_file(path), wait=False)
        except BlockingIOError:
            if (pid := _named(path)) is not None and _lives(pid):
                break
            time.sleep(_PAUSE)
            continue
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
        return descriptor
    raise SessionBusy(f"the session {path.stem} is in use by the process {_named(path) or 'unknown'}", hint=hint)


def unlock(path: Path, descriptor: int) -> None:
    """Let go of the lock; the file goes first, or it could be the one of the next process."""
    with suppress(OSError):
        os.unlink(lock_file(path))
    os.close(descriptor)


def holder(path: Path) -> int | None:
    """The process that works on a log right now; the lock itself is only touched while that process lives."""
    pid = _named(path)
    if pid is None or not _lives(pid):
        return None
    try:
        with locked(lock_file(path), shared=True, wait=False, create=False):
            return None
    except BlockingIOError:
        return pid
    except OSError:
        return None


def lock_file(path: Path) -> str:
    return beside(path, LOCK)


def _named(path: Path) -> int | None:
    try:
        text = read_regular(lock_file(path))
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
