"""Applying changes to zones: all of them or none, also where the process is killed in between.

What was there before is kept first, then a journal says that the changes count, and from there on they are carried
out, again after the next start if need be. The same steps the other way round take them back.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Literal

from forge_cli.core.errors import Stale, ToolError
from forge_cli.core.text import counted
from forge_cli.files.clone import clone
from forge_cli.files.home import make_private
from forge_cli.files.replace import replace_file
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.trial.changes import Entry, PathChange, dump_change, entry_of, load_change

_CHANGES, _JOURNAL, _BEFORE = "changes.json", "journal", "before"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20
_OVERLAY = "user.overlay."
_libc = ctypes.CDLL(None, use_errno=True)
Side = Literal["before", "after"]


@dataclass(frozen=True)
class ChangeSet:
    """The changes of one command in a folder of their own, with what is to be written and what was there before."""

    folder: Path
    changes: tuple[PathChange, ...]

    @classmethod
    def load(cls, folder: Path) -> ChangeSet:
        found = json.loads((folder / _CHANGES).read_bytes())
        return cls(folder, tuple(map(load_change, found)))

    def save(self, *, durable: bool = False) -> None:
        """Write them down; before they are carried out, so that a power cut does not lose them."""
        text = json.dumps([dump_change(change) for change in self.changes])
        replace_file(self.folder / _CHANGES, text, mode=0o600, durable=durable)

    @property
    def zones(self) -> list[str]:
        return list(dict.fromkeys(change.zone for change in self.changes))

    def source(self, change: PathChange, side: Side) -> Path:
        """Where the content lies that a path is to get."""
        if side == "after":
            return upper_folder(self.folder, change.zone).joinpath(*change.parts)
        return self.folder / _BEFORE / sha256(os.fsencode(change.path)).hexdigest()


def upper_folder(folder: Path, zone: str) -> Path:
    return folder / sha256(os.fsencode(zone)).hexdigest()[:16] / "upper"


def apply(changes: ChangeSet, keep: Callable[[ChangeSet], None] | None = None) -> None:
    """Carry out all changes, if everything is still as the command found it; else Stale, and nothing is changed.

    ``keep`` is called before anything is changed, with what was there in its place.
    """
    with _locked(changes.folder), _Walk(changes) as walk:
        walk.check_all(changes)
        keep_before(changes, walk)
        if keep:
            keep(changes)
        changes.save(durable=True)
        replace_file(changes.folder / _JOURNAL, "after", mode=0o600)
        _carry_out(changes, walk, "after")


def found_anew(changes: ChangeSet) -> ChangeSet:
    """The same changes to what is there now, where somebody else was there meanwhile: the later one counts."""
    with _Walk(changes) as walk:
        found = [replace(change, before=walk.look(change, content=True)) for change in changes.changes]
    paths = {change.path for change in found}
    again = ChangeSet(changes.folder, tuple(change for change in found if _is_possible(change, paths)))
    again.save()
    return again


def _is_possible(change: PathChange, paths: set[Path]) -> bool:
    """Whether there is something to do, and no folder would go away with what others have put there."""
    if change.after is not None:
        return True
    kept = change.before is not None and change.before.kind == "folder" and set(change.path.iterdir()) - paths
    return change.before is not None and not kept


def check(changes: ChangeSet) -> None:
    """Stale where something is not as the command found it."""
    with _Walk(changes) as walk:
        walk.check_all(changes)


def take_back(changes: ChangeSet) -> None:
    """Restore what was there before, if everything is still as the command left it; else Stale."""
    with _locked(changes.folder), _Walk(changes) as walk:
        for change in changes.changes:
            if walk.side_of(change) != "after":
                raise Stale(f"{shown(str(change.path))} was changed since")
        replace_file(changes.folder / _JOURNAL, "before", mode=0o600)
        _carry_out(changes, walk, "before")


def finish(folder: Path) -> str | None:
    """Complete what a process that was killed began; a sentence about what came of it, None where nothing was begun."""
    if not (folder / _JOURNAL).exists():
        return None
    with _locked(folder, wait=False) as own:
        if not own or not (folder / _JOURNAL).exists():
            return None
        changes = ChangeSet.load(folder)
        wanted: Side = "before" if (folder / _JOURNAL).read_text() == "before" else "after"
        with _Walk(changes) as walk:
            unknown = [change for change in changes.changes if not walk.is_ours(change)]
            if not unknown:
                _carry_out(changes, walk, wanted)
                count = counted(len(changes.changes), "change")
                return f"{count} that were cut off are {'done' if wanted == 'after' else 'taken back'} now"
            with suppress(OSError):  # as much as somebody else's changes let us
                _steps(walk, [change for change in changes.changes if change not in unknown], "before", changes.source)
            (folder / _JOURNAL).unlink()
        return f"changes that were cut off are taken back, but for {shown(str(unknown[0].path))}: it was changed since"


def _carry_out(changes: ChangeSet, walk: _Walk, side: Side) -> None:
    """Do every step; where one fails the others are taken back."""
    other: Side = "before" if side == "after" else "after"
    try:
        _steps(walk, changes.changes, side, changes.source)
    except OSError as error:
        _steps(walk, changes.changes, other, changes.source)
        (changes.folder / _JOURNAL).unlink()
        raise ToolError(f"nothing was changed: {shown(str(error.filename or ''))}: {error.strerror}") from None
    walk.sync(changes.folder)
    (changes.folder / _JOURNAL).unlink()


def keep_before(changes: ChangeSet, walk: _Walk) -> None:
    """Keep what will be changed or deleted: a file by another name where that is possible, else by a copy."""
    kept = changes.folder / _BEFORE
    if kept.exists():
        shutil.rmtree(kept)
    make_private(kept)
    for change in changes.changes:
        if change.before and change.before.kind == "file" and not _is_kept_by(change):
            with walk.parent(change) as parent:
                _keep(parent, change.parts[-1], changes.source(change, "before"))


def _is_kept_by(change: PathChange) -> bool:
    """Whether the file itself stays, and only its mode or times change."""
    before, after = change.before, change.after
    return before is not None and after is not None and (before.kind, before.detail) == (after.kind, after.detail)


def _keep(parent: int, name: str, target: Path) -> None:
    info = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if info.st_nlink == 1:
        with suppress(OSError):
            os.link(name, target, src_dir_fd=parent, follow_symlinks=False)
            return
    with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent), "rb") as source:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as copy:
            if not clone(source.fileno(), copy.fileno()):
                shutil.copyfileobj(source, copy, _CHUNK)


def _steps(walk: _Walk, changes: Sequence[PathChange], side: Side, source: Callable[[PathChange, Side], Path]) -> None:
    """Make every path what it is to be; a step that was done already changes nothing."""
    wanted: Entry | None
    for change in changes:
        wanted = getattr(change, side)
        if wanted and wanted.kind == "folder" and (now := walk.look(change)) and now.kind == "folder":
            walk.open_folder(change, wanted)
    for change in reversed(changes):
        wanted = getattr(change, side)
        now = walk.look(change) if wanted is None or change.what == "replaced" else None
        if now is not None and (wanted is None or wanted.kind != now.kind):
            walk.remove(change, now)
    linked: dict[tuple[str, int], PathChange] = {}
    for change in changes:
        wanted = getattr(change, side)
        if wanted is None:
            continue
        first = linked.setdefault((change.zone, wanted.number), change) if wanted.kind != "folder" else change
        if first is not change and side == "after":
            walk.link(first, change)
        else:
            walk.make(change, wanted, source(change, side))
    for change in reversed(changes):
        wanted = getattr(change, side)
        if wanted is not None and wanted.kind == "folder":
            walk.set_attributes(change, wanted)


class _Walk:
    """The zones of some changes, held open: every path is walked to from there, and no link is followed."""

    def __init__(self, changes: ChangeSet) -> None:
        self._zones: dict[str, int] = {}
        self._last: tuple[tuple[str, tuple[str, ...]], int] | None = None
        self._id = sha256(os.fsencode(changes.folder)).hexdigest()[:12]
        for zone in changes.zones:
            if os.path.realpath(zone) != zone:
                raise Stale(f"{zone} leads elsewhere now")
            self._zones[zone] = os.open(zone, _FOLDER)

    def __enter__(self) -> _Walk:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()
        for descriptor in self._zones.values():
            os.close(descriptor)

    def sync(self, beside: Path) -> None:
        """See that all is on disk before the journal goes; a file system keeps the order of its own changes itself."""
        for descriptor in self._zones.values():
            if os.fstat(descriptor).st_dev != os.stat(beside).st_dev:
                _libc.syncfs(descriptor)

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

    def _open(self, change: PathChange) -> int:
        descriptor = os.dup(self._zones[change.zone])
        for name in change.parts[:-1]:
            try:
                below = os.open(name, _FOLDER, dir_fd=descriptor)
            finally:
                os.close(descriptor)
            descriptor = below
        return descriptor

    def look(self, change: PathChange, *, content: bool = False) -> Entry | None:
        """What is there now."""
        name = _name(change)
        try:
            with self.parent(change) as parent:
                info = os.stat(name, dir_fd=parent, follow_symlinks=False)
                return entry_of(f"/proc/self/fd/{parent}/{name}", info, content=content)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def check_all(self, changes: ChangeSet) -> None:
        paths = {change.path for change in changes.changes}
        for change in changes.changes:
            self._check(change, paths)

    def _check(self, change: PathChange, paths: Container[Path]) -> None:
        """Is it as the command found it, and is nothing in a folder that goes away but what goes with it?"""
        now = self.look(change)
        before = change.before
        if now is None or before is None:
            same = now is before
        else:
            same = (now.kind, now.number, now.changed) == (before.kind, before.number, before.changed)
        if not same and not (now and before and now.kind == before.kind == "folder" and now.number == before.number):
            raise Stale(f"{shown(str(change.path))} was changed meanwhile")
        goes = before and before.kind == "folder" and (change.after is None or change.after.kind != "folder")
        if goes and (new := next((path for path in change.path.iterdir() if path not in paths), None)):
            raise Stale(f"{shown(str(new))} is new")

    def is_ours(self, change: PathChange) -> bool:
        """Is it as it was before or is to be after, or between the two?"""
        return self.side_of(change) is not None or (change.what == "replaced" and self.look(change) is None)

    def side_of(self, change: PathChange) -> Side | None:
        """Which of both it is now; None for something else."""
        now = self.look(change, content=True)
        if _equal(now, change.after):
            return "after"
        return "before" if _equal(now, change.before) else None

    def open_folder(self, change: PathChange, wanted: Entry) -> None:
        """Let things be written in a folder, until all are."""
        with self.parent(change) as parent:
            os.chmod(_name(change), wanted.mode | 0o700, dir_fd=parent)

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
                os.link(_name(first), temporary, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
                os.rename(temporary, _name(change), src_dir_fd=target, dst_dir_fd=target)
                with suppress(FileNotFoundError):  # a rename of two names of one file does nothing
                    os.unlink(temporary, dir_fd=target)
        finally:
            os.close(source)

    def make(self, change: PathChange, wanted: Entry, source: Path) -> None:
        name, now = _name(change), self.look(change, content=wanted.kind == "file")
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

    def _file(self, parent: int, change: PathChange, now: Entry | None, wanted: Entry, source: Path) -> None:
        name = _name(change)
        if now is None or (now.kind, now.detail) != (wanted.kind, wanted.detail):
            if self._move(source, parent, name, wanted):
                return
            temporary = self._temporary(parent, change)
            descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent)
            with open(descriptor, "r+b") as target, open(source, "rb") as content:
                if not clone(content.fileno(), target.fileno()):
                    _copy_sparse(content.fileno(), target.fileno(), wanted.size)
                _copy_attributes(content.fileno(), target.fileno())
            self._attributes(parent, temporary, wanted)
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        else:
            self._attributes(parent, name, wanted)

    def _move(self, source: Path, parent: int, name: str, wanted: Entry) -> bool:
        """Put the file itself in its place, which is at once; not what is kept from before, nor across file systems."""
        if source.parent.name == _BEFORE or os.stat(source).st_dev != os.fstat(parent).st_dev:
            return False
        for attribute in os.listxattr(source):
            if attribute.startswith(_OVERLAY):
                os.removexattr(source, attribute)
        folder = os.open(source.parent, _FOLDER)
        try:
            self._attributes(folder, source.name, wanted)
            os.rename(source.name, name, src_dir_fd=folder, dst_dir_fd=parent)
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

    def _temporary(self, parent: int, change: PathChange) -> str:
        """A name that is the same after the next start, where what was left of it goes away."""
        name = f".forge-{self._id}-{sha256(os.fsencode(_name(change))).hexdigest()[:12]}.tmp"
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=parent)
        return name


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


def _copy_sparse(source: int, target: int, size: int) -> None:
    """Copy what is written of a file, and leave its holes."""
    os.truncate(target, size)
    at = 0
    while at < size:
        try:
            begin = os.lseek(source, at, os.SEEK_DATA)
        except OSError:  # nothing but a hole behind
            return
        end = os.lseek(source, begin, os.SEEK_HOLE)
        at = begin
        while at < end:
            sent = os.copy_file_range(source, target, end - at, at, at)
            if not sent:
                return
            at += sent


@contextmanager
def _locked(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    descriptor = os.open(folder, _FOLDER)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)
