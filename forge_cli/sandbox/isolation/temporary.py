"""The ``/tmp`` of a worker's commands: shared until the session ends; trials see copies of it."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from forge_cli.sandbox.processes.limits import spell_size

MAX_ENTRIES = 200_000
"""The most files and folders, whatever their size."""
_SEEN_AS = "/tmp"  # noqa: S108
_PREFIX = "forge-tmp-"
_LOCK = "lock"
_OPAQUE = "user.overlay.opaque"
_SHARED_BY_ALL = 0o1777
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class TemporaryFolder:
    """A folder in place of ``/tmp``, inside a folder that no other user can enter."""

    def __init__(self, room: int | None) -> None:
        """Make the folder; it may contain ``room`` bytes."""
        self.room = room
        _remove_left()
        self._around = Path(os.path.realpath(tempfile.mkdtemp(prefix=_PREFIX)))
        # Take the lock before others can see it: a free lock marks the folder of a killed process.
        begun = self._around / f"{_LOCK}.new"
        self._lock = os.open(begun, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        begun.rename(self._around / _LOCK)
        self.path = self._around / "tmp"
        self.path.mkdir()
        self.path.chmod(_SHARED_BY_ALL)

    def close(self) -> None:
        _remove(self._around)
        os.close(self._lock)

    def copy(self, name: str) -> TemporaryCopy:
        """Return a new copy, replacing an earlier one of that name."""
        return TemporaryCopy(self, self._around / f"copy-{name}")

    def exceeded(self) -> str | None:
        """Return why it contains too much and is to be emptied, or None."""
        size, entries = _measure(self.path)
        if self.room is not None and size > self.room:
            limit = f"{spell_size(self.room)} in {_SEEN_AS} (sandbox.limits.file_size)"
            return f"it left more than {limit}, which was emptied"
        if entries > MAX_ENTRIES:
            return f"it left more than {MAX_ENTRIES} files in {_SEEN_AS}, which was emptied"
        return None

    def empty(self) -> None:
        _remove_inside(self.path)


class TemporaryCopy:
    """A copy for one trial, made by an overlay."""

    def __init__(self, original: TemporaryFolder, folder: Path) -> None:
        _remove(folder)
        self._original = original
        self._folder = folder
        self.lower = original.path
        self.upper, self.work, self.merged = (folder / name for name in ("upper", "work", "merged"))
        for place in (folder, self.upper, self.work, self.merged):
            place.mkdir(mode=0o700)
        self.upper.chmod(_SHARED_BY_ALL)

    def keep(self) -> None:
        """Apply the copy's changes to the original; later writers win."""
        with suppress(FileNotFoundError):
            upper = os.open(self.upper, _FOLDER)
            target = os.open(self.lower, _FOLDER)
            try:
                _merge(upper, target)
            finally:
                os.close(upper)
                os.close(target)
        if self._original.exceeded():
            self._original.empty()
        self.drop()

    def drop(self) -> None:
        _remove(self._folder)


def _remove_left() -> None:
    """Remove the folders of killed processes, whose locks are free."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue  # it belongs to another user, or is being made
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(folder)
        except BlockingIOError:
            continue
        finally:
            os.close(lock)


def _merge(upper: int, target: int) -> None:
    """Move everything below one folder to another, never following links that commands may make."""
    for name in os.listdir(upper):
        info = os.stat(name, dir_fd=upper, follow_symlinks=False)
        if stat.S_ISCHR(info.st_mode):
            _remove_entry(name, target)  # a character device marks a deletion in an overlay
        elif stat.S_ISDIR(info.st_mode):
            _merge_folder(name, upper, target, info)
        else:
            _remove_entry(name, target)
            os.rename(name, name, src_dir_fd=upper, dst_dir_fd=target)


def _merge_folder(name: str, upper: int, target: int, info: os.stat_result) -> None:
    inside = _open_folder(name, upper)
    if inside is None:
        return
    try:
        # An opaque folder replaces the original one with everything in it.
        if _is_opaque(inside) or not _is_folder(name, target):
            _remove_entry(name, target)
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=target)
        there = _open_folder(name, target)
        if there is None:
            return
        try:
            _merge(inside, there)
            os.fchmod(there, stat.S_IMODE(info.st_mode))
        finally:
            os.close(there)
    finally:
        os.close(inside)


def _open_folder(name: str, around: int) -> int | None:
    """Open a folder, but not through a link; return None if it is unreadable, and so not kept."""
    try:
        return os.open(name, _FOLDER, dir_fd=around)
    except OSError:
        return None


def _is_folder(name: str, around: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=around, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _is_opaque(folder: int) -> bool:
    try:
        return os.getxattr(folder, _OPAQUE) == b"y"
    except OSError:
        return False


def _remove_entry(name: str, around: int) -> None:
    if _is_folder(name, around):
        shutil.rmtree(name, ignore_errors=True, dir_fd=around)
        return
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=around)


def _remove_inside(folder: Path) -> None:
    with suppress(FileNotFoundError):
        around = os.open(folder, _FOLDER)
        try:
            for name in os.listdir(around):
                _remove_entry(name, around)
        finally:
            os.close(around)


def _remove(folder: Path) -> None:
    """Remove a folder with everything in it, including unreadable folders."""
    for around, folders, _ in os.walk(folder):
        for name in folders:
            path = os.path.join(around, name)
            if not os.path.islink(path):
                with suppress(OSError):
                    os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _measure(folder: Path) -> tuple[int, int]:
    """Return the bytes and the number of entries below a folder."""
    size = 0
    entries = 0
    waiting = [str(folder)]
    while waiting and entries <= MAX_ENTRIES:
        with suppress(OSError), os.scandir(waiting.pop()) as found:
            for entry in found:
                entries += 1
                with suppress(OSError):
                    # The space on disk, since a sparse file may be much smaller than its size.
                    size += entry.stat(follow_symlinks=False).st_blocks * 512
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    return size, entries
