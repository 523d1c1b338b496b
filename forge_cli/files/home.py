"""Folders of forge, the user and the organisation."""

from __future__ import annotations

import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path

from forge_cli.core.errors import Mark, WorkerError
from forge_cli.files.regular import sync_folder

POLICY = Path("/etc/forge/policy.yaml")
"""The policy file of the organisation."""
POLICY_VARIABLE = "FORGE_POLICY"
"""The variable that names a policy file; it counts only if ``POLICY`` does not exist."""
ASK_ADMIN = "ask the administrator of this machine"
TRIALS = ".trials"
"""The suffix of the folder next to a session's log that contains its trials."""


def has_policy() -> bool:
    """Return True if an organisation's policy applies."""
    return machine_has_policy() or bool(os.environ.get(POLICY_VARIABLE))


def machine_has_policy() -> bool:
    """Return True if the machine has a policy file; raise WorkerError if that is unknown."""
    try:
        os.lstat(POLICY)
    except FileNotFoundError:
        return False
    except OSError as error:
        problem = f"cannot check for a policy of the organisation: {error.strerror}"
        raise WorkerError(Mark(str(POLICY)), problem, hint=ASK_ADMIN) from None
    return True


def forge_home() -> Path:
    """Return ``FORGE_HOME``, or ``.forge`` in the user's home; it may not exist yet."""
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
            None, f"FORGE_HOME={named}: unknown user '{named[1:].split('/')[0]}'", hint=hint
        )
    return Path(home).absolute()


def make_private(folder: Path) -> None:
    """Make a private folder and its missing parents, synced against power cuts."""
    if folder.is_dir():
        return
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileNotFoundError:
        make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
    sync_folder(folder.parent)


def close_home(home: Path) -> str | None:
    """Make a home private if others can enter it; return a message about that, else None.

    Another user's folder, a link, a shared folder such as /tmp, and a folder that is not only for
    forge stay as they are.
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
    return f"{home} was open to others (mode {found.st_mode & 0o777:03o}); it is now private (700)"


def _is_more_than_ours(home: Path) -> bool:
    real = os.path.realpath(home)
    return any(place.is_relative_to(real) for place in (user_home().resolve(), Path.cwd()))


def system_home() -> Path | None:
    """Return the user's home according to the system, whatever ``HOME`` says; None if unknown."""
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return None


def user_home() -> Path:
    """Return ``HOME``; if it is empty, the user's home according to the system."""
    return Path(os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir)


def user_homes() -> list[Path]:
    """Return all homes of the user, since secrets may be in each of them."""
    found = [user_home()]
    with suppress(KeyError):  # a user without an entry
        found.append(Path(pwd.getpwuid(os.getuid()).pw_dir))
    return found
