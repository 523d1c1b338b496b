"""The lock of a session: one process works on a log at a time, and another one is told which."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from forge_cli.core.errors import ForgeError


class SessionBusy(ForgeError):
    """Another process works on this session."""


def lock(path: Path) -> int:
    """Hold the lock of a log; its file, beside the log, names the process that has it."""
    while True:
        descriptor = os.open(_file(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_current(descriptor, path):
                os.ftruncate(descriptor, 0)
                os.write(descriptor, str(os.getpid()).encode())
                return descriptor
        except BlockingIOError:
            who = _named(descriptor) or "unknown"
            os.close(descriptor)
            hint = "wait for it to end, or start a copy with --fork"
            raise SessionBusy(f"the session {path.stem} is in use by the process {who}", hint=hint) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def unlock(path: Path, descriptor: int) -> None:
    """Let go of the lock; the file goes first, or it could be the one of the next process."""
    with suppress(OSError):
        _file(path).unlink()
    os.close(descriptor)


def holder(path: Path) -> int | None:
    """The process that works on a log right now; the lock itself is only touched while that process lives."""
    try:
        descriptor = os.open(_file(path), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        pid = _named(descriptor)
        if pid is None or not _lives(pid):
            return None
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return pid
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _file(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def _named(descriptor: int) -> int | None:
    text = os.pread(descriptor, 20, 0)
    return int(text) if text.isdigit() else None


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _is_current(descriptor: int, path: Path) -> bool:
    """Is the file that was locked still the one of that name? Whoever had it before removes it when it ends."""
    try:
        return os.fstat(descriptor).st_ino == _file(path).stat().st_ino
    except FileNotFoundError:
        return False
