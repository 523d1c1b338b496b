"""Where forge keeps what belongs to the person who uses it."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def forge_home() -> Path:
    """``FORGE_HOME``, or ``.forge`` in the user's home; it need not exist."""
    named = os.environ.get("FORGE_HOME")
    return Path(os.path.expanduser(named)).absolute() if named else user_home() / ".forge"


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for this user alone."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileNotFoundError:
        make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def close_home(home: Path) -> str | None:
    """Take a home away from others if they can enter it; returns the sentence that says so.

    A folder that is somebody else's, a link, shared (as /tmp is), or not for forge alone stays as it is.
    """
    try:
        found = home.lstat()
        shared = found.st_uid != os.geteuid() or found.st_mode & stat.S_ISVTX or _is_more_than_ours(home)
        if not stat.S_ISDIR(found.st_mode) or shared or not found.st_mode & 0o077:
            return None
        home.chmod(0o700)
    except OSError:
        return None
    return f"{home} was open to others (mode {found.st_mode & 0o777:03o}); it is yours alone now (700)"


def _is_more_than_ours(home: Path) -> bool:
    real = home.resolve()
    return any(place.is_relative_to(real) for place in (user_home().resolve(), Path.cwd()))


def user_home() -> Path:
    return Path(os.path.expanduser("~"))
