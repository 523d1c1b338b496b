"""Sessions on disk: where their logs lie, and which process works on one."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from forge_cli.core.errors import ForgeError
from forge_cli.files.home import forge_home
from forge_cli.files.lock import acquire_file_lock, hold_file_lock
from forge_cli.files.regular import read_regular

LOCK = ".lock"
_TRIES = 25
_PAUSE = 0.02
_FOLDER, SUFFIX = "sessions", ".jsonl"


class SessionBusy(ForgeError):
    """Another process works on this session."""


def lock_log(path: Path, hint: str = "wait for it to end, or start a copy with --fork") -> int:
    """Hold the lock of a log; its file, beside the log, names the process that has it.

    A process that has it without a name is about to write it, or only looks whether it is free, so it is tried again.
    A full disk has no room for the name: then the process that waits is not told which one has it.
    """
    for _ in range(_TRIES):
        try:
            descriptor = acquire_file_lock(lock_file(path), wait=False)
        except BlockingIOError:
            if (pid := _named(path)) is not None and _lives(pid):
                break
            time.sleep(_PAUSE)
            continue
        with suppress(OSError):
            if os.fstat(
                descriptor
            ).st_size:  # ext4 writes out what was cut to nothing when it is closed: 1 ms
                os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
        return descriptor
    raise SessionBusy(
        f"the session {path.stem} is in use by the process {_named(path) or 'unknown'}", hint=hint
    )


def unlock_log(path: Path, descriptor: int) -> None:
    """Let go of the lock; the file goes first, or it could be the one of the next process."""
    with suppress(OSError):
        os.unlink(lock_file(path))
    os.close(descriptor)


def lock_holder(path: Path) -> int | None:
    """The process that works on a log right now; the lock itself is only touched while that process lives."""
    pid = _named(path)
    if pid is None or not _lives(pid):
        return None
    try:
        with hold_file_lock(lock_file(path), shared=True, wait=False, create=False):
            return None
    except BlockingIOError:
        return pid
    except OSError:
        return None


def lock_file(path: Path) -> str:
    return path_beside_log(path, LOCK)


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


class SessionLost(ForgeError):
    """The log cannot be written any more, so the work stops: what happens next would be forgotten."""


def new_session_id() -> str:
    """Ids sort by the time of their making, and are short enough to type a part of."""
    return f"{datetime.now():%Y%m%d-%H%M%S}-{os.urandom(4).hex()}"


def sessions_folder() -> Path:
    return forge_home() / _FOLDER


def session_file(session: str) -> Path:
    """The log of a session, by its whole id."""
    return forge_home().joinpath(_FOLDER, f"{session}{SUFFIX}")


def path_beside_log(log: Path, ending: str) -> str:
    """The path of something that belongs to a log for the time being, and is not a session."""
    folder, name = os.path.split(log)
    return os.path.join(folder, f".{name}{ending}")
