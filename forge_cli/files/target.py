"""A file that an option names to be written, looked at before there is anything to write."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from forge_cli.core.errors import UsageError


def check_target(option: str, file: Path, *, regular: bool = False) -> None:
    """Refuse a file that could not be written later; with ``regular`` also a device, which can be written only."""
    folder = file.absolute().parent
    try:
        mode = file.stat().st_mode if folder.is_dir() else None
    except FileNotFoundError:
        mode = stat.S_IFREG
    except OSError as error:
        raise UsageError(f"{option} {file}: it cannot be written: {error.strerror}", hint="name another file") from None
    if mode is None:
        raise UsageError(f"{option} {file}: there is no folder {folder}", hint=f"make it first: mkdir -p {folder}")
    if stat.S_ISDIR(mode):
        raise UsageError(f"{option} {file}: that is a folder; name a file in it")
    if regular and not stat.S_ISREG(mode):
        raise UsageError(f"{option} {file}: that is not a regular file", hint="name a file, or a new one")
    if stat.S_ISFIFO(mode):
        raise UsageError(f"{option} {file}: that is a pipe, which may have no reader; name a file")
    if not os.access(file if file.exists() else folder, os.W_OK):
        raise UsageError(f"{option} {file}: you may not write there", hint="name another file")
