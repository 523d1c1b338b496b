"""A walk through changing zones that holds each folder open and follows no link."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Literal, Self

from forge_cli.core.errors import Stale
from forge_cli.files.copying import copy_content
from forge_cli.files.regular import sync_data, sync_folders_of
from forge_cli.sandbox.changes.path_changes import Entry, PathChange, PathKey, entry_of
from forge_cli.sandbox.names import shown

BEFORE = "before"
"""The name of the folder with the saved originals."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
SYNCED_EACH = 32
"""Files that are synced one by one; if there are more, their whole file system is synced."""
_OVERLAY = "user.overlay."
_libc = ctypes.CDLL(None, use_errno=True)
Side = Literal["before", "after"]


class ZoneWalk:
    """The zones of some changes, held open; every path is reached without following links."""

    def __init__(
        self, zones: Iterable[str], folder: Path, roots: Mapping[str, int], *, moves: bool = True
    ) -> None:
        """``folder`` has the changes; temporary names are derived from it.

        ``roots`` has the inode numbers of the zones' root folders, if known. Without ``moves``, new
        contents are copied.
        """
        self._may_move = moves
        self._zones: dict[str, int] = {}
        self._moves: dict[PathKey, bool] = {}
        self._staged: dict[PathKey, int] = {}
        self._copied: set[str] = set()
        self._unsynced: set[str] = set()
        self._last: tuple[tuple[str, tuple[str, ...]], int] | None = None
        self._id = staging_id(folder)
        try:
            for zone in zones:
                self._zones[zone] = os.open(zone, FOLDER)
                # The lock shows a cleaner that staged files in this zone are still in use.
                with suppress(OSError):
                    fcntl.flock(self._zones[zone], fcntl.LOCK_SH | fcntl.LOCK_NB)
                number = os.fstat(self._zones[zone]).st_ino
                if os.path.realpath(zone) != zone or roots.get(zone, number) != number:
                    raise Stale(f"{shown(zone)} is a different folder now")
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()
        for descriptor in self._zones.values():
            os.close(descriptor)

    def sync_staged(self) -> None:
        """Sync the staged files before they replace anything."""
        for zone in self._unsynced:
            sync_file_system(self._zones[zone], zone)
        self._unsynced.clear()

    def sync(self, beside: Path, changes: Sequence[PathChange]) -> None:
        """Sync all changes before the journal, in the folder ``beside``, is removed."""
        many = len(changes) > SYNCED_EACH
        for zone, descriptor in self._zones.items():
            if (
                many
                or zone in self._copied
                or os.fstat(descriptor).st_dev != os.stat(beside).st_dev
            ):
                sync_file_system(descriptor, zone)
            else:
                sync_folders_of(change.path for change in changes if change.zone == zone)

    def parent(self, change: PathChange) -> int:
        """Return a descriptor of the parent folder of a path, open until the next call.

        The last one stays open, since its neighbours usually come next.
        """
        key = change.zone, change.parts[:-1]
        if self._last is None or self._last[0] != key:
            self.leave()
            self._last = key, self._open(change)
        return self._last[1]

    def leave(self) -> None:
        """Close the last folder, because another one may take its place."""
        if self._last is not None:
            os.close(self._last[1])
            self._last = None

    def _open(self, change: PathChange, depth: int | None = None) -> int:
        """Open the parent folder of a path, or its ancestor at this ``depth`` in the zone."""
        descriptor = os.dup(self._zones[change.zone])
        if depth is None:
            depth = len(change.parts) - 1
        for name in change.parts[:depth]:
            try:
                below = os.open(name, FOLDER, dir_fd=descriptor)
            finally:
                os.close(descriptor)
            descriptor = below
        return descriptor

    def look(self, change: PathChange, *, content: bool = False) -> Entry | None:
        """Return the current entry at the path of a change."""
        name = _name(change)
        try:
            parent = self.parent(change)
            info = os.stat(name, dir_fd=parent, follow_symlinks=False)
            return entry_of(name, info, content=content, within=parent)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def check_all(self, changes: Sequence[PathChange]) -> None:
        """Raise Stale if a path is not as the command found it."""
        keys = {change.key for change in changes if change.before}
        for change in changes:
            self._check(change, keys)

    def _check(self, change: PathChange, keys: Container[PathKey]) -> None:
        """Raise Stale if the path was changed, or if a folder to be removed has new files in it."""
        now = self.look(change)
        before = change.before
        if now is None or before is None:
            same = now is before
        else:
            identity = (before.kind, before.number, before.changed)
            same = (now.kind, now.number, now.changed) == identity
            # A folder also changes when something else is made in it, which is no conflict.
            same = same or (now.kind == "folder" and identity[:2] == ("folder", now.number))
        if not same:
            raise Stale(f"{shown(str(change.path))} was changed in the meantime")
        goes = (
            before
            and before.kind == "folder"
            and (change.after is None or change.after.kind != "folder")
        )
        if goes:
            for name in os.listdir(change.path):
                if (change.zone, (*change.parts, name)) not in keys:
                    raise Stale(f"{shown(str(change.path / name))} was made in the meantime")

    def is_ours(self, change: PathChange) -> bool:
        """Return True if the path is as it was before, as it is to be, or between the two."""
        return self.side_of(change) is not None or (
            change.what == "replaced" and self.look(change) is None
        )

    def side_of(self, change: PathChange) -> Side | None:
        """Return the side on which the path is now, or None if it is on neither."""
        now = self.look(change, content=True)
        if _equal(now, change.after):
            return "after"
        if _equal(now, change.before):
            return "before"
        return None

    def open_folder(self, change: PathChange, wanted: Entry | None) -> None:
        """Make a folder writable until all its files are written or deleted."""
        now = self.look(change)
        if now and now.kind == "folder":
            mode = wanted.mode if wanted and wanted.kind == "folder" else now.mode
            os.chmod(_name(change), mode | 0o700, dir_fd=self.parent(change))

    def remove(self, change: PathChange, now: Entry) -> None:
        parent = self.parent(change)
        if now.kind == "folder":
            os.rmdir(_name(change), dir_fd=parent)
            self.leave()
        else:
            os.unlink(_name(change), dir_fd=parent)

    def link(self, first: PathChange, change: PathChange) -> None:
        """Make another name for a file that was just made."""
        source = self._open(first)
        try:
            target = self.parent(change)
            temporary = self._temporary(target, change)
            os.link(
                _name(first),
                temporary,
                src_dir_fd=source,
                dst_dir_fd=target,
                follow_symlinks=False,
            )
            os.rename(temporary, _name(change), src_dir_fd=target, dst_dir_fd=target)
            # The rename does nothing if both names already belong to the file.
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=target)
        finally:
            os.close(source)

    def stage(self, change: PathChange, wanted: Entry, source: str, depth: int) -> None:
        """Write new content beside its place unless the file can be moved; errors come early here.

        The folder at this ``depth`` of the zone exists before and after the changes.
        """
        place = change.zone, change.parts[:depth]
        if self._moves.get(place) and not _is_kept(source):
            return
        now = self.look(change)
        # Comparing sizes first saves hashing files that differ anyway.
        if now and (now.kind, now.size) == (wanted.kind, wanted.size):
            now = self.look(change, content=True)
            if now and (now.kind, now.detail) == (wanted.kind, wanted.detail):
                return
        folder = self._open(change, depth)
        try:
            if not self._can_move(change, source, folder, place):
                self._write(folder, change, source)
                self._staged[change.key] = depth
        finally:
            os.close(folder)

    def clean(self, change: PathChange, depth: int) -> None:
        """Remove temporary files that an interrupted or failed attempt left beside a path."""
        self._staged.pop(change.key, None)
        # A file may have been staged at its depth, or written directly in its own folder.
        for each in {depth, len(change.parts) - 1}:
            with suppress(FileNotFoundError, NotADirectoryError):
                folder = self._open(change, each)
                try:
                    self._temporary(folder, change)
                finally:
                    os.close(folder)

    def _can_move(self, change: PathChange, source: str, folder: int, place: PathKey) -> bool:
        """Return True if the file itself can be moved to its place.

        This is tried once for each ``place``, the folder of this descriptor, because a file system
        that is mounted twice has one device number and refuses moves.
        """
        if _is_kept(source) or not self._may_move:
            return False
        if place not in self._moves:
            # A hard link tells in advance whether a later rename would cross file systems.
            name = self._temporary(folder, change)
            self._moves[place] = os.stat(source).st_dev == os.fstat(folder).st_dev
            if self._moves[place]:
                try:
                    os.link(source, name, dst_dir_fd=folder, follow_symlinks=False)
                    os.unlink(name, dir_fd=folder)
                except OSError:
                    self._moves[place] = False
        return self._moves[place]

    def _write(self, folder: int, change: PathChange, source: str) -> None:
        """Write the content of a file to its temporary name."""
        self._copied.add(change.zone)
        temporary = self._temporary(folder, change)
        descriptor = os.open(
            temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder
        )
        with open(descriptor, "r+b") as target, open(source, "rb") as content:
            copy_content(content.fileno(), target.fileno())
            _copy_attributes(content.fileno(), target.fileno())
            if len(self._staged) < SYNCED_EACH:
                sync_data(target.fileno())
            else:
                self._unsynced.add(change.zone)

    def make(self, change: PathChange, wanted: Entry, source: str) -> None:
        """Make the path as ``wanted``, with the content of the file ``source``."""
        name = _name(change)
        match wanted.kind:
            case "folder":
                if self.look(change) is None:
                    os.mkdir(name, 0o700, dir_fd=self.parent(change))
            case "link":
                parent = self.parent(change)
                temporary = self._temporary(parent, change)
                os.symlink(wanted.detail, temporary, dir_fd=parent)
                os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
                _set_times(parent, name, wanted)
            case "pipe":
                if self.look(change) is None:
                    os.mkfifo(name, wanted.mode, dir_fd=self.parent(change))
                self._attributes(self.parent(change), name, wanted)
            case "file":
                self._file(change, wanted, source)

    def _file(self, change: PathChange, wanted: Entry, source: str) -> None:
        name = _name(change)
        depth = self._staged.pop(change.key, None)
        if depth is None:
            if self._has_content(change, wanted):
                self._attributes(self.parent(change), name, wanted)
                return
            if self._move(source, self.parent(change), name, wanted):
                return
            depth = len(change.parts) - 1
            self._write(self.parent(change), change, source)
            self.sync_staged()
        parent = self.parent(change)
        folder = self._open(change, depth)
        try:
            temporary = self._temporary_name(change)
            self._attributes(folder, temporary, wanted)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=parent)
        finally:
            os.close(folder)

    def _has_content(self, change: PathChange, wanted: Entry) -> bool:
        """Return True if the file has this content; a file of another size is not read."""
        now = self.look(change)
        if now is None or (now.kind, now.size) != (wanted.kind, wanted.size):
            return False
        now = self.look(change, content=True)
        return now is not None and now.detail == wanted.detail

    def _move(self, source: str, parent: int, name: str, wanted: Entry) -> bool:
        """Move the file itself to its place atomically; return False if it has to be copied.

        Saved originals are always copied, because undo may need them again.
        """
        if _is_kept(source) or not self._may_move:
            return False
        # Attributes of the overlay would hide the file in the next overlay.
        notes: list[str] = []
        if sys.platform == "linux":
            notes = [each for each in os.listxattr(source) if each.startswith(_OVERLAY)]
        if notes and not os.access(source, os.W_OK):
            os.chmod(source, wanted.mode | 0o600)
        for attribute in notes:
            os.removexattr(source, attribute)
        try:
            # No link can lead elsewhere: the session that wrote the folder of changes has ended.
            self._attributes(None, source, wanted)
            os.rename(source, name, dst_dir_fd=parent)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            return False
        return True

    def set_attributes(self, change: PathChange, wanted: Entry) -> None:
        self._attributes(self.parent(change), _name(change), wanted)

    def _attributes(self, parent: int | None, name: str, wanted: Entry) -> None:
        """Set the owner, mode and time of a file as far as they differ."""
        info = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if (info.st_uid, info.st_gid) != wanted.owner:
            # Only root can change the owner.
            with suppress(PermissionError):
                os.chown(name, *wanted.owner, dir_fd=parent, follow_symlinks=False)
                # Changing the owner clears set-ID bits, so that the mode is compared afterwards.
                info = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_IMODE(info.st_mode) != wanted.mode:
            os.chmod(name, wanted.mode, dir_fd=parent)
        if wanted.kind != "folder" and info.st_mtime_ns != wanted.modified:
            _set_times(parent, name, wanted)

    def _temporary(self, folder: int, change: PathChange) -> str:
        """Return a temporary name for a path, after removing an earlier file of that name."""
        name = self._temporary_name(change)
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        return name

    def _temporary_name(self, change: PathChange) -> str:
        """Return a name that is the same after a restart, so that leftovers are removed."""
        return f".forge-{self._id}-{sha256(os.fsencode(change.place)).hexdigest()[:12]}.tmp"


def staging_id(folder: Path) -> str:
    """Return the part of a temporary name that identifies its folder of changes."""
    return sha256(os.fsencode(folder)).hexdigest()[:12]


def _is_kept(source: str) -> bool:
    """Return True for a saved original, which is copied because undo may need it again."""
    return os.path.basename(os.path.dirname(source)) == BEFORE


def _name(change: PathChange) -> str:
    return change.parts[-1] if change.parts else "."


def _equal(now: Entry | None, then: Entry | None) -> bool:
    if now is None or then is None:
        return now is then
    if now.kind == then.kind == "folder":
        return True  # while files are written in it, its mode is between the two
    return (now.kind, now.mode, now.detail) == (then.kind, then.mode, then.detail)


def _set_times(parent: int | None, name: str, wanted: Entry) -> None:
    os.utime(name, ns=(wanted.modified, wanted.modified), dir_fd=parent, follow_symlinks=False)


def _copy_attributes(source: int, target: int) -> None:
    if sys.platform != "linux":
        return
    # The file system of the target may not support attributes.
    with suppress(OSError):
        for name in os.listxattr(source):
            if name.startswith("user.") and not name.startswith(_OVERLAY):
                os.setxattr(target, name, os.getxattr(source, name))


def sync_file_system(descriptor: int, place: str) -> None:
    """Wait until everything written to a file system is on its disk."""
    if sys.platform != "linux":
        os.sync()
        return
    if _libc.syncfs(descriptor) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), place)
