"""Atomic replacement of files: readers see the old or the new content, even after a power cut."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import stat
from contextlib import suppress
from io import BufferedReader
from pathlib import Path

from forge_cli.files.home import make_private
from forge_cli.files.regular import sync_data, sync_folder

_FLAGS = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PREFIX = ".forge-"
_SUFFIX = ".tmp"
_OWN_NAME = re.compile(r"\.forge-[0-9a-f]{16}\.tmp")
"""Temporary files of ``replace_in``; they are locked while in use, so an unlocked one is stale."""
_swept = set[tuple[int, int]]()
"""Folders that this process has swept."""


def replace_file(
    file: Path, content: str | bytes | BufferedReader, *, mode: int = 0o666, durable: bool = True
) -> None:
    """Replace the content of a file; ``mode`` is subject to the umask.

    Missing parent folders are private. Only caches are not ``durable``: a power cut may lose them.
    """
    make_private(file.parent)
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        data = content.encode() if isinstance(content, str) else content
        replace_in(folder, file.name, data, mode=mode, durable=durable)
    finally:
        os.close(folder)


def replace_in(
    folder: int,
    name: str,
    data: bytes | BufferedReader,
    *,
    mode: int = 0o666,
    like: os.stat_result | None = None,
    durable: bool = True,
) -> None:
    """Replace a file in an open folder.

    Mode and owner may be ``like`` those of another file; ``data`` may be an open file.
    """
    info = os.fstat(folder)
    # Once per process is enough: leftovers come from processes that were killed earlier.
    if (info.st_dev, info.st_ino) not in _swept:
        _swept.add((info.st_dev, info.st_ino))
        sweep_folder(".", within=folder)
    temporary, descriptor = _open_temporary(folder, 0o600 if like else mode)
    try:
        try:
            if like:
                with suppress(OSError):
                    # Only root may give a file to another user.
                    os.fchown(descriptor, like.st_uid, like.st_gid)
                os.fchmod(descriptor, like.st_mode & 0o777)
            if isinstance(data, BufferedReader):
                from forge_cli.files.copying import copy_content

                copy_content(data.fileno(), descriptor)
            else:
                _write_all(descriptor, data)
            # Before the rename: after a power cut the name must not lead to an empty file.
            if durable:
                sync_data(descriptor)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            os.close(descriptor)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    if durable:
        sync_folder(".", within=folder)


def replace_by_link(folder: int, name: str, target: str) -> None:
    """Replace a name in an open folder by a link to ``target``, atomically."""
    temporary = f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"
    os.symlink(target, temporary, dir_fd=folder)
    try:
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _open_temporary(folder: int, mode: int) -> tuple[str, int]:
    """Create a temporary file and lock it, which protects it from ``sweep_folder``."""
    while True:
        temporary = f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"
        descriptor = os.open(temporary, _FLAGS | os.O_CREAT | os.O_EXCL, mode, dir_fd=folder)
        try:
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_nlink:
                return temporary, descriptor
        except BaseException:
            os.close(descriptor)
            raise
        # Another process swept the folder before the file was locked.
        os.close(descriptor)


def make_file(file: Path, text: str) -> None:
    """Create a user's file and sync it; raise FileExistsError if the name is taken."""
    descriptor = os.open(file, _FLAGS | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        try:
            _write_all(descriptor, text.encode())
            sync_data(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        with suppress(OSError):
            os.unlink(file)
        raise
    sync_folder(file.absolute().parent)


def append_durably(file: Path, text: str) -> None:
    """Append to a user's file, or create it, and sync it."""
    # A person may keep the file elsewhere, behind a link.
    descriptor = os.open(file, _FLAGS & ~os.O_NOFOLLOW | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        _write_all(descriptor, text.encode())
        sync_data(descriptor)
    finally:
        os.close(descriptor)
    sync_folder(file.absolute().parent)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        # One write may take only a part.
        rest = rest[os.write(descriptor, rest) :]


def sweep_folder(folder: Path | str, *, within: int | None = None) -> None:
    """Remove temporary files of killed processes in a folder."""
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=within)
        try:
            for name in os.listdir(opened):
                if _OWN_NAME.fullmatch(name) and not remove_stale(opened, name):
                    _remove_link(opened, name)
        finally:
            os.close(opened)


def _remove_link(folder: int, name: str) -> None:
    """Remove a temporary link, which cannot be locked; it exists only for a moment."""
    with suppress(OSError):
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)


def remove_stale(folder: int, name: str) -> bool:
    """Remove a temporary file unless a process is writing it; return True if it is gone."""
    with suppress(OSError):
        descriptor = os.open(name, _FLAGS, dir_fd=folder)
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(name, dir_fd=folder)
                return True
        finally:
            os.close(descriptor)
    return False
