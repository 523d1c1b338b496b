"""Files that commands must not change, where nothing holds them back: as they were, and put back afterwards."""

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

LARGEST, TOGETHER = 8 * 1024 * 1024, 64 * 1024 * 1024
"""Bytes of one file, and of all, that are kept to be put back."""
ENTRIES_AT_MOST = 50_000
_SETTLED = 100_000_000
"""Nanoseconds after which a change shows in times on every file system."""
Stamp = tuple[int, int, int, int, int]


class _Entry(Struct, frozen=True):
    """A file, a folder or a link, as it is in its place."""

    stamp: Stamp
    mode: int
    content: bytes | None = None
    """Of a link the path that it leads to; None of a file that is too large to be kept."""

    def is_as(self, other: _Entry) -> bool:
        if stat.S_ISDIR(self.mode) and stat.S_ISDIR(other.mode):
            return True  # what lies in it is looked at by itself
        if self.stamp == other.stamp and any(self.stamp):
            return True
        return (
            self.mode == other.mode and self.content is not None and self.content == other.content
        )


class FileKeeper:
    """Keeps the contents for as long as a worker starts commands; what has not changed is not read again."""

    def __init__(self) -> None:
        self._known: dict[str, _Entry] = {}

    def look(self, paths: Iterable[Path]) -> KeptFiles:
        """The state of the paths now, with all that is in folders; of these there may be more than can be kept."""
        ordered = tuple(sorted(paths, key=lambda path: path.is_dir()))
        self._known = self.find(ordered)
        return KeptFiles(self, ordered, self._known)

    def find(self, paths: Iterable[Path]) -> dict[str, _Entry]:
        found: dict[str, _Entry] = {}
        room = TOGETHER
        for path in paths:
            for each in _tree(str(path)):
                if len(found) >= ENTRIES_AT_MOST:
                    return found
                entry = self._read(each, room) if each not in found else None
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
    """The state before one command."""

    keeper: FileKeeper
    paths: tuple[Path, ...]
    before: dict[str, _Entry]

    def restore(self, accepts: Callable[[str], bool]) -> list[str]:
        """Put back what changed, and say of each what was done; what a command wrote stays under another name.

        ``accepts`` says of a path that somebody else wrote it, with consent.
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
        if not os.path.lexists(path) or accepts(path):  # it went away with the folder around it
            return
        if _is_compiled(path):
            _drop(Path(path))
        elif not stat.S_ISDIR(now[path].mode) and (name := set_aside(Path(path))):
            yield f"{path} (renamed to {name})"


def _tree(path: str) -> Iterator[str]:
    yield path
    for around, folders, names in os.walk(path) if not os.path.islink(path) else ():
        yield from (os.path.join(around, name) for name in (*folders, *names))


def _stamp(info: os.stat_result) -> Stamp:
    """The state of a file; zeros where it is so new that a change might not show."""
    settled = time.time_ns() - info.st_ctime_ns > _SETTLED
    return (
        (info.st_dev, info.st_ino, info.st_ctime_ns, info.st_size, info.st_mode)
        if settled
        else (0, 0, 0, 0, 0)
    )


def _content(path: str, info: os.stat_result, room: int) -> bytes | None:
    if stat.S_ISLNK(info.st_mode):
        return os.fsencode(os.readlink(path))
    if not stat.S_ISREG(info.st_mode) or info.st_size > min(LARGEST, room) or _is_compiled(path):
        return None
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        return file.read()


def _is_compiled(path: str) -> bool:
    """Whether Python makes it again by itself."""
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
        return [f"{path} (put back{written})"] if aside else ()
    return [f"{path} ({'put back' if done else 'it could not be put back'}{written})"]


def _make(path: Path, entry: _Entry) -> bool:
    """Make it as it was; a link in the place of a folder around it is renamed first."""
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
