"""The lock of a session: one process works on a log at a time, and another one is told which."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from forge_cli.core.errors import ForgeError
from forge_cli.core.upkeep import move_out_of_reach
from forge_cli.files.lock import acquire, locked
from forge_cli.files.regular import read_regular
from forge_cli.record.log import beside

LOCK = ".lock"
_TRIES, _PAUSE = 25, 0.02


class SessionBusy(ForgeError):
    """Another process works on this session."""


class _Held(NamedTuple):
    """A lock that a process has."""

    pid: int
    file: str
    descriptor: int


_latest: _Held | None = None
"""The one that this process took last, as long as it has it."""
_sharing = threading.Lock()
_shared: Counter[int] = Counter()
"""How many sessions besides the first have a lock, by its descriptor."""


def lock(path: Path) -> int:
    """Hold the lock of a log; its file, beside the log, names the process that has it.

    The sessions that a process works on at once have one file under several names: to make one takes the system five
    times as long as to link it.
    """
    global _latest
    file = lock_file(path)
    with _sharing:
        descriptor = _share(_latest, file)
    if descriptor is None:
        descriptor = move_out_of_reach(lock_unnamed(path))
        try:
            if os.fstat(descriptor).st_size:  # ext4 writes a file to the disk that was cut to nothing, and waits
                os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
        except BaseException:
            os.close(descriptor)
            raise
    _latest = _Held(os.getpid(), file, descriptor)
    return descriptor


def _share(held: _Held | None, file: str) -> int | None:
    """Give a lock that this process has one more name, if nothing has it; None where that cannot be."""
    if held is None or held.pid != os.getpid():
        return None
    try:
        os.link(held.file, file)
    except OSError:
        return None
    with suppress(OSError):
        if os.path.samestat(os.fstat(held.descriptor), os.stat(file, follow_symlinks=False)):
            _shared[held.descriptor] += 1
            return held.descriptor
    with suppress(OSError):  # somebody has put another file there
        os.unlink(file)
    return None


def lock_unnamed(path: Path, hint: str = "wait for it to end, or start a copy with --fork") -> int:
    """The same for a moment and without the name, for which a full disk has no room.

    Who has the lock without a name is about to write it, or lets go at once, so it is tried again.
    """
    file = lock_file(path)
    for _ in range(_TRIES):
        try:
            descriptor = acquire(file, wait=False)
        except BlockingIOError:
            if (pid := _named(path)) is not None and _lives(pid):
                break
            time.sleep(_PAUSE)
            continue
        if os.fstat(descriptor).st_nlink <= 1:
            return descriptor
        unlock(path, descriptor)  # a process was killed that had other sessions under this lock, which are free as well
    who = _named(path) or "unknown"
    raise SessionBusy(f"the session {path.stem} is in use by the process {who}", hint=hint)


def unlock(path: Path, descriptor: int) -> None:
    """Let go of the lock; the file goes first, or it could be the one of the next process."""
    global _latest
    file = lock_file(path)
    with _sharing:
        if _latest and _latest.file == file:
            _latest = None
        with suppress(OSError):
            os.unlink(file)
        if _shared[descriptor]:
            _shared[descriptor] -= 1
        else:
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
