"""Paths of session logs, and the locks that show which process uses a session."""

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
# Half a second in total: enough to write an ID, or to test a lock.
_MAX_ATTEMPTS = 25
_RETRY_DELAY = 0.02
_FOLDER, SUFFIX = "sessions", ".jsonl"


class SessionBusy(ForgeError):
    """The session is used by another process."""


def lock_log(path: Path, hint: str = "wait for it to end, or start a copy with --fork") -> int:
    """Lock a log, and write the ID of this process to the lock file beside it.

    A lock without an ID belongs to a process that is about to write it, or that only tests the
    lock, so this retries. If the disk is full, the ID is missing and the message names no process.
    """
    for _ in range(_MAX_ATTEMPTS):
        try:
            descriptor = acquire_file_lock(lock_file(path), wait=False)
        except BlockingIOError:
            if (pid := _lock_pid(path)) is not None and _is_running(pid):
                break
            time.sleep(_RETRY_DELAY)
            continue
        with suppress(OSError):
            # Truncating an empty file would cost 1 ms: ext4 flushes a truncated file when it is
            # closed.
            if os.fstat(descriptor).st_size:
                os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
        return descriptor
    raise SessionBusy(
        f"the session {path.stem} is in use by process {_lock_pid(path) or 'unknown'}", hint=hint
    )


def unlock_log(path: Path, descriptor: int) -> None:
    """Release a lock. The file goes first, as afterwards it may belong to the next process."""
    with suppress(OSError):
        os.unlink(lock_file(path))
    os.close(descriptor)


def lock_holder(path: Path) -> int | None:
    """Return the process that uses a log, or None.

    The lock itself is tested only if that process is alive.
    """
    pid = _lock_pid(path)
    if pid is None or not _is_running(pid):
        return None
    try:
        with hold_file_lock(lock_file(path), shared=True, wait=False, create=False):
            return None
    except BlockingIOError:
        return pid
    except OSError:
        return None


def lock_file(path: Path) -> str:
    """Return the lock file of a log."""
    return path_beside_log(path, LOCK)


def _lock_pid(path: Path) -> int | None:
    try:
        text = read_regular(lock_file(path))
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        # Another user's process, or a number out of range: only the lock itself shows more.
        return True
    return True


class SessionLost(ForgeError):
    """The log cannot be written any more; the session stops, since later events would be lost."""


def new_session_id() -> str:
    """Return an ID; IDs sort by time and are short enough to type a part of one."""
    return f"{datetime.now():%Y%m%d-%H%M%S}-{os.urandom(4).hex()}"


def sessions_folder() -> Path:
    """Return the folder with the logs of all sessions."""
    return forge_home() / _FOLDER


def session_file(session: str) -> Path:
    """Return the log of a session by its full ID."""
    return forge_home().joinpath(_FOLDER, f"{session}{SUFFIX}")


def path_beside_log(log: Path, ending: str) -> str:
    """Return the path of a temporary companion of a log, which is not itself a session."""
    folder, name = os.path.split(log)
    return os.path.join(folder, f".{name}{ending}")
