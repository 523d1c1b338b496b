"""The folder in which forge keeps what belongs to the person who uses it, and where an organisation has its file."""

from __future__ import annotations

import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path

from forge_cli.core.errors import Mark, WorkerError
from forge_cli.files.regular import sync_folder

POLICY = Path("/etc/forge/policy.yaml")
"""The file of the organisation."""
POLICY_VARIABLE = "FORGE_POLICY"
"""The variable that names such a file; it counts only if `POLICY` does not exist."""
ASK_ADMIN = "ask who keeps this machine"
TRIALS = ".trials"
"""The ending of the folder beside the log of a session that holds its commands on copies."""


def has_policy() -> bool:
    return machine_has_policy() or bool(os.environ.get(POLICY_VARIABLE))


def machine_has_policy() -> bool:
    """Whether the machine has a file of an organisation; where that cannot be found out, nothing else may happen."""
    try:
        os.lstat(POLICY)
    except FileNotFoundError:
        return False
    except OSError as error:
        problem = f"whether the organisation has a policy cannot be found out: {error.strerror}"
        raise WorkerError(Mark(str(POLICY)), problem, hint=ASK_ADMIN) from None
    return True


def forge_home() -> Path:
    """``FORGE_HOME``, or ``.forge`` in the user's home; it need not exist."""
    named = os.environ.get("FORGE_HOME")
    if not named:
        return (user_home() / ".forge").absolute()
    # expanduser would make an empty HOME the root folder.
    if named == "~" or named.startswith("~/"):
        return (user_home() / named[2:]).absolute()
    home = os.path.expanduser(named)
    if home.startswith("~"):
        hint = "name another user or a folder, or unset FORGE_HOME"
        raise WorkerError(
            None, f"FORGE_HOME={named}: there is no user '{named[1:].split('/')[0]}'", hint=hint
        )
    return Path(home).absolute()


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for this user alone; they are there after a power cut."""
    if folder.is_dir():
        return
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileNotFoundError:
        make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
    sync_folder(folder.parent)


def close_home(home: Path) -> str | None:
    """Take a home away from others if they can enter it; returns the sentence that says so.

    A folder that is somebody else's, a link, shared (as /tmp is), or not for forge alone stays as it is.
    """
    try:
        found = home.lstat()
        shared = (
            found.st_uid != os.geteuid() or found.st_mode & stat.S_ISVTX or _is_more_than_ours(home)
        )
        if not stat.S_ISDIR(found.st_mode) or shared or not found.st_mode & 0o077:
            return None
        home.chmod(0o700)
    except OSError:
        return None
    return (
        f"{home} was open to others (mode {found.st_mode & 0o777:03o}); it is yours alone now (700)"
    )


def _is_more_than_ours(home: Path) -> bool:
    real = os.path.realpath(home)
    return any(place.is_relative_to(real) for place in (user_home().resolve(), Path.cwd()))


def system_home() -> Path | None:
    """The folder that the system knows for this user, whatever ``HOME`` says; None for one without an entry."""
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return None


def user_home() -> Path:
    """``HOME``; where that is empty, the folder that the system knows for this user."""
    return Path(os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir)


def user_homes() -> list[Path]:
    """``HOME``, and the folder that the system knows for this user, where the secrets may lie all the same."""
    found = [user_home()]
    with suppress(KeyError):  # a user without an entry
        found.append(Path(pwd.getpwuid(os.getuid()).pw_dir))
    return found
