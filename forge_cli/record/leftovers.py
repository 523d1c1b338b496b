"""Files left behind by killed processes: found, and removed unless a running process uses them."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct

from forge_cli.core.errors import ForgeError
from forge_cli.files.home import TRIALS
from forge_cli.files.replace import remove_stale
from forge_cli.files.staging import remove_stale_folder
from forge_cli.record.places import SUFFIX, lock_holder, lock_log, sessions_folder, unlock_log
from forge_cli.sandbox.changes.apply import is_begun
from forge_cli.sandbox.changes.walk import staging_id
from forge_cli.sandbox.trial.copies import drop_copies

TRIED = "tried.json"
"""The file of a trial that waits for an answer."""
# One random number: ``replace_in`` and ``staging_folder``. With an ID: a trial being applied.
_TEMPORARY = re.compile(r"\.forge-(?:[0-9a-f]{16}|(?P<id>[0-9a-f]{12})-[0-9a-f]{12})\.tmp")
_PARKED = re.compile(r"\.forge-undo-[0-9a-f]{16}")
# The unit of st_blocks, whatever the blocks of the file system are.
_BLOCK_BYTES = 512
Kind = Literal["trial", "temporary", "undo"]


class Leftover(Struct, frozen=True):
    """The copy of a trial, a temporary file, or the content that an unfinished undo was moving."""

    kind: Kind
    path: Path
    size: int
    """Bytes on disk."""
    kept: str | None = None
    """The reason why it must stay."""


def drop_unfinished(log: Path) -> None:
    """Remove the copies of trials that a killed process left, unless they wait for an answer."""
    for folder in _unfinished(log.with_suffix(TRIALS)):
        drop_copies(folder)
    with suppress(OSError):
        log.with_suffix(TRIALS).rmdir()


def drop_all_unfinished() -> None:
    """Remove such copies from every session that no process uses."""
    for log in _logs_with_trials():
        if not any(_unfinished(log.with_suffix(TRIALS))):
            continue
        _drop_if_free(log)


def _drop_if_free(log: Path) -> None:
    """Remove such copies from one session, unless a process uses it."""
    with suppress(ForgeError, OSError):
        held = lock_log(log)
        try:
            drop_unfinished(log)
        finally:
            unlock_log(log, held)


def find_leftovers(home: Path, folder: Path | None = None) -> list[Leftover]:
    """Find leftovers in the home of forge and, if ``folder`` is given, in it and its subfolders."""
    found: list[Leftover] = []
    pending: dict[str, Path] = {}
    for log in _logs_with_trials():
        pid = lock_holder(log)
        kept: str | None = None
        if pid:
            kept = f"process {pid} is using its session"
        for each in _unfinished(log.with_suffix(TRIALS)):
            found.append(Leftover("trial", each, _size_of(each), kept))
        for each in _begun(log):
            pending[staging_id(each.resolve())] = each
    # ``folder`` is optional, and may be the home itself.
    for around in dict.fromkeys(filter(None, (home, folder))):
        found += _find_files(around, pending)
    # A folder inside the home is searched twice.
    return list({each.path: each for each in found}.values())


def remove_leftover(leftover: Leftover) -> bool:
    """Remove a leftover unless a process uses it by now; return True if it is gone."""
    if leftover.kept:
        return False
    path = leftover.path
    if leftover.kind == "trial":
        log = path.parent.with_suffix(SUFFIX)
        _drop_if_free(log)
        return not path.exists()
    if path.is_dir() and not path.is_symlink() and not _is_staged(path.name):
        return remove_stale_folder(path)
    with suppress(OSError):
        # A descriptor, so that another folder that takes the name of this one is not touched.
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if path.is_symlink() or _is_staged(path.name):
                os.unlink(path.name, dir_fd=folder)
                return True
            return remove_stale(folder, path.name)
        finally:
            os.close(folder)
    return False


def _logs_with_trials() -> list[Path]:
    folder = sessions_folder()
    logs: list[Path] = []
    with suppress(OSError):
        for name in os.listdir(folder):
            if name.endswith(TRIALS):
                logs.append(folder / f"{name.removesuffix(TRIALS)}{SUFFIX}")
    return logs


def _unfinished(trials: Path) -> Iterator[Path]:
    """Yield the folders of trials that ended before a person was asked or they were applied."""
    with suppress(OSError):
        for folder in sorted(trials.iterdir()):
            if not is_begun(folder) and not (folder / TRIED).exists():
                yield folder


def _begun(log: Path) -> Iterator[Path]:
    with suppress(OSError):
        for folder in log.with_suffix(TRIALS).iterdir():
            if is_begun(folder):
                yield folder


def _find_files(around: Path, pending: dict[str, Path]) -> Iterator[Leftover]:
    for folder, folders, files in os.walk(around):
        folders[:] = [name for name in folders if not name.endswith(TRIALS)]
        for name in (*files, *folders):
            if not name.startswith(".forge-"):
                continue
            path = Path(folder, name)
            if _PARKED.fullmatch(name):
                kept = "it contains a file of an unfinished undo; run forge undo for that session"
                yield Leftover("undo", path, _size_of(path), kept)
            elif found := _TEMPORARY.fullmatch(name):
                reason = _why_kept(path, pending.get(found["id"] or ""))
                yield Leftover("temporary", path, _size_of(path), reason)


def _is_staged(name: str) -> bool:
    found = _TEMPORARY.fullmatch(name)
    return found is not None and found["id"] is not None


def _why_kept(path: Path, pending: Path | None) -> str | None:
    if pending is not None:
        return f"{pending} needs it; the next start of forge completes these changes"
    if path.is_symlink():
        is_busy = _is_any_locked(path.parents)
    else:
        is_busy = _is_locked(path) or (_is_staged(path.name) and _is_any_locked(path.parents))
    return "a process is using it" if is_busy else None


def _is_any_locked(folders: Iterable[Path]) -> bool:
    """Return True if a process is applying changes in one of these folders."""
    return any(map(_is_locked, folders))


def _is_locked(path: Path) -> bool:
    try:
        # O_NONBLOCK: a pipe of this name would wait for its other end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _size_of(path: Path) -> int:
    total = _blocks(path)
    for folder, folders, files in os.walk(path):
        total += sum(_blocks(Path(folder, name)) for name in (*folders, *files))
    return total


def _blocks(path: Path) -> int:
    with suppress(OSError):
        return os.lstat(path).st_blocks * _BLOCK_BYTES
    return 0
