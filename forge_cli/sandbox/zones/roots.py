"""The folders of zones on disk: where none may lie, and whether a missing one can be made."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from forge_cli import sandbox

_PSEUDO = ("/proc", "/sys", "/dev")


def refusal(root: Path, user_home: Path) -> str | None:
    """Why no zone may lie there, or None when one may."""
    if _same(root, Path("/")):
        return "'/' is the whole machine"
    if _same(root, user_home):
        return f"{sandbox.names.shown(str(root))} is your home folder itself"
    for pseudo in map(Path, _PSEUDO):
        if root.is_relative_to(pseudo) or _on_device_of(root, pseudo):
            return f"{sandbox.names.shown(str(root))} lies in {pseudo}, which holds no files"
    return None


def _same(one: Path, other: Path) -> bool:
    if one == Path(os.path.realpath(other)):
        return True
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _on_device_of(root: Path, pseudo: Path) -> bool:
    try:
        device = os.stat(pseudo).st_dev
        return device == os.stat(root).st_dev and device != os.stat("/").st_dev
    except OSError:
        return False


def make(root: Path) -> str | None:
    """Make the folder, with those above it; returns what is in the way."""
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return error.strerror or str(error)
    return None


def unmakeable(root: Path) -> str | None:
    """What would be in the way of making the folder, with nothing made."""
    above = next(folder for folder in root.parents if os.path.lexists(folder))
    if not above.is_dir():
        return os.strerror(errno.ENOTDIR)
    # whoever confined this process has asked before, outside, where it can be known
    writable = sandbox.isolation.inherited.inherited() or os.access(above, os.W_OK | os.X_OK)
    return None if writable else os.strerror(errno.EACCES)
