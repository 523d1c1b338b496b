"""Replacing a file as a whole: a reader sees the old content or the new, never a part."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import time
from contextlib import suppress

from forge_cli.files.sync import sync_folder

_EXISTING = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_TEMPORARY = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PREFIX, _SUFFIX = ".forge-", ".tmp"
_STALE = 60.0
"""Seconds after which a temporary file that nobody has locked was left by a process that was killed."""
_swept = set[tuple[int, int]]()
"""Folders that this process has looked through."""


def replace_file(folder: int, name: str, data: bytes, like: os.stat_result | None = None) -> None:
    """Give the file ``name`` in an open folder new content; other hard links keep the old content.

    Its mode and owner stay what they are, unless they are to be ``like`` those of another file.
    """
    old = _writable(folder, name)
    old = like or old
    _sweep(folder)
    temporary = f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"
    descriptor = os.open(temporary, _TEMPORARY, 0o600 if old else 0o666, dir_fd=folder)
    try:
        try:
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if old:
                _copy_attributes(descriptor, old)
            _write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    sync_folder(".", within=folder)


def _writable(folder: int, name: str) -> os.stat_result | None:
    """The file to be replaced: a rename would also replace what its owner made read-only, so it is opened first."""
    try:
        descriptor = os.open(name, _EXISTING, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno != errno.ETXTBSY:
            raise
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    try:
        info = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if not stat.S_ISREG(info.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    return info


def _copy_attributes(descriptor: int, old: os.stat_result) -> None:
    with suppress(OSError):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, old.st_mode & 0o777)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _sweep(folder: int) -> None:
    """Remove what processes that were killed left in a folder; it is looked through once."""
    info = os.fstat(folder)
    if (info.st_dev, info.st_ino) in _swept:
        return
    _swept.add((info.st_dev, info.st_ino))
    with suppress(OSError):
        opened = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            for name in os.listdir(opened):
                if name.startswith(_PREFIX) and name.endswith(_SUFFIX):
                    _remove_stale(opened, name)
        finally:
            os.close(opened)


def _remove_stale(folder: int, name: str) -> None:
    with suppress(OSError):
        descriptor = os.open(name, _EXISTING, dir_fd=folder)
        try:
            info = os.fstat(descriptor)
            if stat.S_ISREG(info.st_mode) and info.st_mtime < time.time() - _STALE:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(name, dir_fd=folder)
        finally:
            os.close(descriptor)
