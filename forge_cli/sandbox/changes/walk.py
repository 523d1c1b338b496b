"""A walk through zones that change: every path is reached from a folder that is held open, and no link is followed."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Literal, Self

from forge_cli.core.errors import Stale
from forge_cli.files.copying import copy_content
from forge_cli.files.regular import sync_data, sync_folders_of
from forge_cli.sandbox.changes.path_changes import Entry, PathChange, entry_of
from forge_cli.sandbox.names import shown

BEFORE = "before"
"""The folder of what is kept."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
SYNCED_EACH = 32
"""Files that are synced one by one; of more than that, their file system is."""
_OVERLAY = "user.overlay."
_libc = ctypes.CDLL(None, use_errno=True)
Side = Literal["before", "after"]


class ZoneWalk:
    """The zones of some changes, held open: every path is walked to from there, and no link is followed."""

    def __init__(self, zones: Iterable[str], folder: Path, roots: Mapping[str, int]) -> None:
        """``folder`` is where the changes lie; names of temporary files are made of it.

        ``roots`` has the numbers of the zones' own folders on disk, as far as somebody knows them.
        """
        self._zones: dict[str, int] = {}
        self._moves: dict[str, bool] = {}
        self._staged: dict[Path, int] = {}
        self._copied: set[str] = set()
        self._unsynced: set[str] = set()
        self._last: tuple[tuple[str, tuple[str, ...]], int] | None = None
        self._id = staging_id(folder)
        try:
            for zone in zones:
                self._zones[zone] = os.open(zone, FOLDER)
                with suppress(
                    OSError
                ):  # by this a cleaner sees that what is staged in the zone is in use
                    fcntl.flock(self._zones[zone], fcntl.LOCK_SH | fcntl.LOCK_NB)
                number = os.fstat(self._zones[zone]).st_ino
                if os.path.realpath(zone) != zone or roots.get(zone, number) != number:
                    raise Stale(f"{shown(zone)} is another folder now")
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
        """See that what was staged is on disk before it takes the place of anything."""
        for zone in self._unsynced:
            sync_file_system(self._zones[zone], zone)
        self._unsynced.clear()

    def sync(self, beside: Path, changes: Sequence[PathChange]) -> None:
        """See that all changes are on disk before the journal, which lies ``beside``, goes."""
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

    @contextmanager
    def parent(self, change: PathChange) -> Iterator[int]:
        """The folder that a path lies in; the last one stays open, since its neighbours come next."""
        key = change.zone, change.parts[:-1]
        if self._last is None or self._last[0] != key:
            self.leave()
            self._last = key, self._open(change)
        yield self._last[1]

    def leave(self) -> None:
        """Close the last folder: another one may take its place."""
        if self._last is not None:
            os.close(self._last[1])
            self._last = None

    def _open(self, change: PathChange, depth: int | None = None) -> int:
        """The folder that a path lies in, or the one above it that is so deep in the zone."""
        descriptor = os.dup(self._zones[change.zone])
        for name in change.parts[:-1] if depth is None else change.parts[:depth]:
            try:
                below = os.open(name, FOLDER, dir_fd=descriptor)
            finally:
                os.close(descriptor)
            descriptor = below
        return descriptor

    def look(self, change: PathChange, *, content: bool = False) -> Entry | None:
        """The state of now."""
        name = _name(change)
        try:
            with self.parent(change) as parent:
                info = os.stat(name, dir_fd=parent, follow_symlinks=False)
                return entry_of(f"/proc/self/fd/{parent}/{name}", info, content=content)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def check_all(self, changes: Sequence[PathChange]) -> None:
        """Stale where one is not as the command found it."""
        paths = {change.path for change in changes if change.before}
        for change in changes:
            self._check(change, paths)

    def _check(self, change: PathChange, paths: Container[Path]) -> None:
        """Is it as the command found it, and is nothing in a folder that goes away but what goes with it?"""
        now = self.look(change)
        before = change.before
        if now is None or before is None:
            same = now is before
        else:
            same = (now.kind, now.number, now.changed) == (
                before.kind,
                before.number,
                before.changed,
            )
        if not same and not (
            now and before and now.kind == before.kind == "folder" and now.number == before.number
        ):
            raise Stale(f"{shown(str(change.path))} was changed meanwhile")
        goes = (
            before
            and before.kind == "folder"
            and (change.after is None or change.after.kind != "folder")
        )
        if goes and (
            new := next((path for path in change.path.iterdir() if path not in paths), None)
        ):
            raise Stale(f"{shown(str(new))} is new")

    def is_ours(self, change: PathChange) -> bool:
        """Is it as it was before or is to be after, or between the two?"""
        return self.side_of(change) is not None or (
            change.what == "replaced" and self.look(change) is None
        )

    def side_of(self, change: PathChange) -> Side | None:
        """Whether it is now as before or as after; None for something else."""
        now = self.look(change, content=True)
        if _equal(now, change.after):
            return "after"
        return "before" if _equal(now, change.before) else None

    def open_folder(self, change: PathChange, wanted: Entry | None) -> None:
        """Let things be written in a folder, until all are, and be deleted in one that goes away."""
        now = self.look(change)
        if now and now.kind == "folder":
            mode = wanted.mode if wanted and wanted.kind == "folder" else now.mode
            with self.parent(change) as parent:
                os.chmod(_name(change), mode | 0o700, dir_fd=parent)

    def remove(self, change: PathChange, now: Entry) -> None:
        with self.parent(change) as parent:
            (os.rmdir if now.kind == "folder" else os.unlink)(_name(change), dir_fd=parent)
        if now.kind == "folder":
            self.leave()

    def link(self, first: PathChange, change: PathChange) -> None:
        """Another name for a file that was made just now."""
        source = self._open(first)
        try:
            with self.parent(change) as target:
                temporary = self._temporary(target, change)
                os.link(
                    _name(first),
                    temporary,
                    src_dir_fd=source,
                    dst_dir_fd=target,
                    follow_symlinks=False,
                )
                os.rename(temporary, _name(change), src_dir_fd=target, dst_dir_fd=target)
                with suppress(FileNotFoundError):  # a rename of two names of one file does nothing
                    os.unlink(temporary, dir_fd=target)
        finally:
            os.close(source)

    def stage(self, change: PathChange, wanted: Entry, source: Path, depth: int) -> None:
        """Write what a file is to hold beside its place, unless it can be moved there: what can fail fails here.

        The folder at this ``depth`` of the zone is there before the changes and after them.
        """
        now = self.look(change)
        if now and (now.kind, now.size) == (
            wanted.kind,
            wanted.size,
        ):  # of another size it holds something else
            now = self.look(change, content=True)
            if now and (now.kind, now.detail) == (wanted.kind, wanted.detail):
                return
        folder = self._open(change, depth)
        try:
            if not self._can_move(change, source, folder):
                self._write(folder, change, source)
                self._staged[change.path] = depth
        finally:
            os.close(folder)

    def clean(self, change: PathChange, depth: int) -> None:
        """Remove what an attempt that was cut off, or has failed, left beside a path."""
        self._staged.pop(change.path, None)
        for each in {depth, len(change.parts) - 1}:
            with suppress(FileNotFoundError, NotADirectoryError):
                folder = self._open(change, each)
                try:
                    self._temporary(folder, change)
                finally:
                    os.close(folder)

    def _can_move(self, change: PathChange, source: Path, folder: int) -> bool:
        """Whether the file itself can be put in its place; tried, since file systems may be mounted more than once."""
        if source.parent.name == BEFORE or os.stat(source).st_dev != os.fstat(folder).st_dev:
            return False
        if change.zone not in self._moves:
            name = self._temporary(folder, change)
            self._moves[change.zone] = True
            try:
                os.link(source, name, dst_dir_fd=folder, follow_symlinks=False)
                os.unlink(name, dir_fd=folder)
            except OSError:
                self._moves[change.zone] = False
        return self._moves[change.zone]

    def _write(self, folder: int, change: PathChange, source: Path) -> None:
        """Write the content of a file under its temporary name."""
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

    def make(self, change: PathChange, wanted: Entry, source: Path) -> None:
        name = _name(change)
        is_staged = change.path in self._staged
        now = None if is_staged else self.look(change, content=wanted.kind == "file")
        with self.parent(change) as parent:
            match wanted.kind:
                case "folder":
                    if now is None:
                        os.mkdir(name, 0o700, dir_fd=parent)
                case "link":
                    temporary = self._temporary(parent, change)
                    os.symlink(wanted.detail, temporary, dir_fd=parent)
                    os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
                    _set_times(parent, name, wanted)
                case "pipe":
                    if now is None:
                        os.mkfifo(name, wanted.mode, dir_fd=parent)
                    self._attributes(parent, name, wanted)
                case "file":
                    self._file(parent, change, now, wanted, source)

    def _file(
        self, parent: int, change: PathChange, now: Entry | None, wanted: Entry, source: Path
    ) -> None:
        name = _name(change)
        if now is None or (now.kind, now.detail) != (wanted.kind, wanted.detail):
            depth = self._staged.pop(change.path, None)
            if depth is None and self._move(source, parent, name, wanted):
                return
            if depth is None:
                depth = len(change.parts) - 1
                self._write(parent, change, source)
                self.sync_staged()
            folder = self._open(change, depth)
            try:
                temporary = self._temporary_name(change)
                self._attributes(folder, temporary, wanted)
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=parent)
            finally:
                os.close(folder)
        else:
            self._attributes(parent, name, wanted)

    def _move(self, source: Path, parent: int, name: str, wanted: Entry) -> bool:
        """Put the file itself in its place, which is at once; not what is kept from before, nor across file systems."""
        if source.parent.name == BEFORE or os.stat(source).st_dev != os.fstat(parent).st_dev:
            return False
        notes = [attribute for attribute in os.listxattr(source) if attribute.startswith(_OVERLAY)]
        if notes and not os.access(source, os.W_OK):
            os.chmod(source, wanted.mode | 0o600)
        for attribute in notes:
            os.removexattr(source, attribute)
        folder = os.open(source.parent, FOLDER)
        try:
            self._attributes(folder, source.name, wanted)
            os.rename(source.name, name, src_dir_fd=folder, dst_dir_fd=parent)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            return False
        finally:
            os.close(folder)
        return True

    def set_attributes(self, change: PathChange, wanted: Entry) -> None:
        with self.parent(change) as parent:
            self._attributes(parent, _name(change), wanted)

    def _attributes(self, parent: int, name: str, wanted: Entry) -> None:
        info = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if (info.st_uid, info.st_gid) != wanted.owner:
            with suppress(PermissionError):
                os.chown(name, *wanted.owner, dir_fd=parent, follow_symlinks=False)
        if stat.S_IMODE(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode) != wanted.mode:
            os.chmod(name, wanted.mode, dir_fd=parent)
        if wanted.kind != "folder":
            _set_times(parent, name, wanted)

    def _temporary(self, folder: int, change: PathChange) -> str:
        """A temporary name in a folder, where nothing has it."""
        name = self._temporary_name(change)
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        return name

    def _temporary_name(self, change: PathChange) -> str:
        """A name that is the same after the next start, so that what was left of it goes away then."""
        return f".forge-{self._id}-{sha256(os.fsencode(change.path)).hexdigest()[:12]}.tmp"


def staging_id(folder: Path) -> str:
    """The part of the names of temporary files in zones that says which folder of changes they belong to."""
    return sha256(os.fsencode(folder)).hexdigest()[:12]


def _name(change: PathChange) -> str:
    return change.parts[-1] if change.parts else "."


def _equal(now: Entry | None, then: Entry | None) -> bool:
    if now is None or then is None:
        return now is then
    if now.kind == then.kind == "folder":
        return True  # its mode is between the two while things are written in it
    return (now.kind, now.mode, now.detail) == (then.kind, then.mode, then.detail)


def _set_times(parent: int, name: str, wanted: Entry) -> None:
    os.utime(name, ns=(wanted.modified, wanted.modified), dir_fd=parent, follow_symlinks=False)


def _copy_attributes(source: int, target: int) -> None:
    with suppress(OSError):
        for name in os.listxattr(source):
            if name.startswith("user.") and not name.startswith(_OVERLAY):
                os.setxattr(target, name, os.getxattr(source, name))


def sync_file_system(descriptor: int, place: str) -> None:
    """Wait until all that was written to a file system is on its disk."""
    if _libc.syncfs(descriptor) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), place)
