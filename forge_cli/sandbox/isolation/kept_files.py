"""Files that commands must not change but could: saved, and restored afterwards."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from msgspec import Struct

from forge_cli.core.errors import ToolError
from forge_cli.sandbox.isolation.protected_scan import open_exactly, set_aside

MAX_FILE_SIZE = 8 * 1024 * 1024
"""The largest file, in bytes, that is saved."""
MAX_TOTAL_SIZE = 64 * 1024 * 1024
"""The number of bytes that are saved for all files together."""
MAX_ENTRIES = 50_000
_SETTLED = 100_000_000
"""Nanoseconds after which a change updates the times of a file on every file system."""
Stamp = tuple[int, int, int, int, int]


class _Entry(Struct, frozen=True):
    """The state of a file, a folder or a link."""

    stamp: Stamp
    mode: int
    content: bytes | None = None
    """The content of a file or the target of a link; None for a file too large to save."""

    def is_as(self, other: _Entry) -> bool:
        if stat.S_ISDIR(self.mode) and stat.S_ISDIR(other.mode):
            return True  # its contents are compared on their own
        # Zeros stand for a file that was too new, so that they equal nothing.
        if self.stamp == other.stamp and any(self.stamp):
            return True
        return (
            self.mode == other.mode and self.content is not None and self.content == other.content
        )


class FileKeeper:
    """Saved contents of a worker's files; an unchanged file is not read again."""

    def __init__(self) -> None:
        self._known: dict[str, _Entry] = {}

    def look(self, paths: Iterable[Path]) -> KeptFiles:
        """Save the current state of the paths and, up to ``MAX_ENTRIES``, of folders."""
        # Files come first, since a folder may use up all the room.
        ordered = tuple(sorted(paths, key=lambda path: path.is_dir()))
        self._known = self.find(ordered)
        return KeptFiles(self, ordered, self._known)

    def find(self, paths: Iterable[Path]) -> dict[str, _Entry]:
        found: dict[str, _Entry] = {}
        room = MAX_TOTAL_SIZE
        for path in paths:
            for each in _tree(str(path)):
                if len(found) >= MAX_ENTRIES:
                    return found
                if each in found:
                    continue
                entry = self._read(each, room)
                if entry is not None:
                    found[each] = entry
                    room -= len(entry.content or b"")
        return found

    def _read(self, path: str, room: int) -> _Entry | None:
        try:
            info = os.lstat(path)
            stamp = _stamp(info)
            known = self._known.get(path)
            if known is not None and known.stamp == stamp and any(stamp):
                return known
            return _Entry(stamp, info.st_mode, _content(path, info, room))
        except OSError:
            return None


class KeptFiles(Struct, frozen=True):
    """The state of the files before one command."""

    keeper: FileKeeper
    paths: tuple[Path, ...]
    before: dict[str, _Entry]

    def restore(self, accepts: Callable[[str], bool]) -> list[str]:
        """Restore changed files and describe each restoration; what a command wrote is renamed.

        ``accepts`` returns True for a path that an approved call wrote.
        """
        now = self.keeper.find(self.paths)
        said: list[str] = []
        for path in sorted(now.keys() - self.before.keys()):
            said += self._remove(path, now, accepts)
        for path, entry in sorted(self.before.items()):
            if (path not in now or not entry.is_as(now[path])) and not accepts(path):
                said += _put_back(Path(path), entry)
        return said

    def _remove(
        self, path: str, now: dict[str, _Entry], accepts: Callable[[str], bool]
    ) -> Iterator[str]:
        if not os.path.lexists(path) or accepts(path):
            return  # already gone, with the folder around it
        if _is_compiled(path):
            _drop(Path(path))
        elif not stat.S_ISDIR(now[path].mode) and (name := set_aside(Path(path))):
            yield f"{path} (renamed to {name})"


def _tree(path: str) -> Iterator[str]:
    yield path
    if os.path.islink(path):
        return
    for around, folders, names in os.walk(path):
        for name in (*folders, *names):
            yield os.path.join(around, name)


def _stamp(info: os.stat_result) -> Stamp:
    """Return the state of a file; zeros if it is so new that another change might not show."""
    if time.time_ns() - info.st_ctime_ns <= _SETTLED:
        return (0, 0, 0, 0, 0)
    return (info.st_dev, info.st_ino, info.st_ctime_ns, info.st_size, info.st_mode)


def _content(path: str, info: os.stat_result, room: int) -> bytes | None:
    if stat.S_ISLNK(info.st_mode):
        return os.fsencode(os.readlink(path))
    is_too_large = info.st_size > min(MAX_FILE_SIZE, room)
    if not stat.S_ISREG(info.st_mode) or is_too_large or _is_compiled(path):
        return None
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        return file.read()


def _is_compiled(path: str) -> bool:
    """Return True for a file that Python compiles again by itself."""
    return path.endswith(".pyc") and os.path.basename(os.path.dirname(path)) == "__pycache__"


def _drop(path: Path) -> None:
    with suppress(OSError, ToolError):
        folder = open_exactly(path.parent)
        try:
            os.unlink(path.name, dir_fd=folder)
        finally:
            os.close(folder)


def _put_back(path: Path, entry: _Entry) -> Sequence[str]:
    if _is_compiled(str(path)):
        _drop(path)
        return ()
    aside = set_aside(path) if os.path.lexists(path) else None
    written = f"; what was written there is {aside}" if aside else ""
    try:
        done = _make(path, entry)
    except (OSError, ToolError):
        done = False
    if stat.S_ISDIR(entry.mode):
        if aside:
            return [f"{path} (put back{written})"]
        return ()
    return [f"{path} ({'put back' if done else 'it could not be put back'}{written})"]


def _make(path: Path, entry: _Entry) -> bool:
    """Restore an entry, renaming a link in place of a folder around it."""
    _make_folder(path.parent)
    folder = open_exactly(path.parent)
    try:
        if stat.S_ISDIR(entry.mode):
            os.mkdir(path.name, dir_fd=folder)
            return True
        if entry.content is None:
            return False
        name = f".forge-{uuid4().hex}.tmp"
        if stat.S_ISLNK(entry.mode):
            os.symlink(os.fsdecode(entry.content), name, dir_fd=folder)
        else:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
                file.write(entry.content)
                os.fchmod(file.fileno(), stat.S_IMODE(entry.mode))
                file.flush()
                os.fsync(file.fileno())
        os.rename(name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        return True
    finally:
        os.close(folder)


def _make_folder(path: Path) -> None:
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        set_aside(path)
    if path.exists():
        return
    _make_folder(path.parent)
    folder = open_exactly(path.parent)
    try:
        os.mkdir(path.name, dir_fd=folder)
    finally:
        os.close(folder)
