"""Output files named by options: checked before the work begins, and written in one step."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from forge_cli.core.errors import UsageError
from forge_cli.files.regular import sync_data
from forge_cli.files.replace import replace_in
from forge_cli.record.places import sessions_folder


def check_target(
    option: str, file: Path, *, regular: bool = False, record: Path | None = None
) -> None:
    """Raise UsageError if a file could not be written later.

    ``regular`` also rules out devices. ``record`` is the file of ``--record``, which must be
    another one.
    """
    folder = file.absolute().parent
    if os.path.dirname(os.path.realpath(file)) == os.path.realpath(sessions_folder()):
        raise UsageError(
            f"{option} {file}: forge keeps its sessions there", hint="name a file in another folder"
        )
    try:
        info = file.stat() if folder.is_dir() else None
        mode = info and info.st_mode
    except FileNotFoundError:
        info = None
        mode = stat.S_IFREG
    except OSError as error:
        raise UsageError(
            f"{option} {file}: it cannot be written: {error.strerror}", hint="name another file"
        ) from None
    if mode is None:
        raise UsageError(
            f"{option} {file}: there is no folder {folder}",
            hint=f"make it first: mkdir -p {folder}",
        )
    if stat.S_ISDIR(mode):
        raise UsageError(f"{option} {file}: that is a folder; name a file in it")
    # Terminals and /dev/null are character devices, which can be written like files.
    if not stat.S_ISREG(mode) and (regular or not stat.S_ISCHR(mode)):
        raise UsageError(
            f"{option} {file}: that is not a regular file", hint="name a file, or a new one"
        )
    if str(file) == "-" or (info and stat.S_ISREG(mode) and _is_output(info)):
        raise UsageError(
            f"{option} {file}: standard output or error goes there", hint="name another file"
        )
    if record and os.path.realpath(record) == os.path.realpath(file):
        raise UsageError(f"{option} and --record name the same file; name two different files")
    if not os.access(file if file.exists() else folder, os.W_OK):
        raise UsageError(f"{option} {file}: permission denied", hint="name another file")


def write_target(file: Path, text: str) -> None:
    """Write a file atomically, so that an older file survives a full disk.

    A file that is not regular, has several hard links, or cannot be replaced is overwritten in
    place.
    """
    data = text.encode("utf-8", "backslashreplace")
    real = Path(os.path.realpath(file))
    old = file.stat() if file.exists() else None
    if old is None or (stat.S_ISREG(old.st_mode) and old.st_nlink == 1):
        try:
            folder = os.open(real.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                replace_in(folder, real.name, data, like=old)
            finally:
                os.close(folder)
            return
        except OSError as error:
            # In a read-only folder or for a mount point, only the content can be replaced.
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EBUSY):
                raise
    with open(file, "wb") as stream:
        stream.write(data)
        stream.flush()
        sync_data(stream.fileno())


def _is_output(info: os.stat_result) -> bool:
    """Return True if a shell has redirected standard output or error to this file."""
    for descriptor in (1, 2):
        with suppress(OSError):
            if os.path.samestat(info, os.fstat(descriptor)):
                return True
    return False
