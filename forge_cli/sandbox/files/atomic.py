"""Replacing a file as a whole: a reader sees the old content or the new, never a part."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress

_EXISTING = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_TEMPORARY = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def replace_file(folder: int, name: str, data: bytes, like: os.stat_result | None = None) -> None:
    """Give the file ``name`` in an open folder new content; other hard links keep the old content.

    Its mode and owner stay what they are, unless they are to be ``like`` those of another file.
    """
    old = _writable(folder, name)
    old = like or old
    temporary = f".forge-{secrets.token_hex(8)}.tmp"
    descriptor = os.open(temporary, _TEMPORARY, 0o600 if old else 0o666, dir_fd=folder)
    try:
        try:
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
    _sync(folder)


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


def _sync(folder: int) -> None:
    """Make the rename last; a file system that cannot is not an error."""
    with suppress(OSError):
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
