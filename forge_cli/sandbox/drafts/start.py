"""The state of the zones when a draft began, by which changes of other programs are recognized."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from forge_cli.files.replace import replace_file
from forge_cli.sandbox.changes.path_changes import Entry, PathChange
from forge_cli.sandbox.git.index import StagedFile, find_staged

MAX_ENTRIES = 500_000
"""Paths that are recorded; with more, a later change time alone tells what others changed."""
_FILE = "start"
_FILE_TYPES = {"file": stat.S_IFREG, "link": stat.S_IFLNK, "pipe": stat.S_IFIFO}
_INDEX_SUFFIX = ".index"


class PathState(Struct, frozen=True, array_like=True, gc=False):
    """A path as the draft found it."""

    mode: int
    """The kind and the permissions, as ``st_mode`` has them."""
    size: int
    modified: int
    changed: int
    inode: int

    @classmethod
    def of(cls, info: os.stat_result) -> PathState:
        is_folder = stat.S_ISDIR(info.st_mode)
        return cls(
            info.st_mode,
            0 if is_folder else info.st_size,
            0 if is_folder else info.st_mtime_ns,
            0 if is_folder else info.st_ctime_ns,
            info.st_ino,
        )

    @classmethod
    def of_entry(cls, entry: Entry) -> PathState:
        if entry.kind == "folder":
            return cls(stat.S_IFDIR | entry.mode, 0, 0, 0, entry.number)
        mode = _FILE_TYPES[entry.kind] | entry.mode
        return cls(mode, entry.size, entry.modified, entry.changed, entry.number)

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    def is_at(self, entry: Entry) -> bool:
        """Return True if the same file or folder is still there, unchanged.

        No program can set the change time (ctime), so that a later change cannot be hidden. Making
        a file in a folder changes the times of the folder, which are not compared.
        """
        if entry.number != self.inode or (entry.kind == "folder") != self.is_folder:
            return False
        if self.is_folder:
            return entry.mode == stat.S_IMODE(self.mode)
        return (entry.size, entry.modified, entry.changed) == (
            self.size if entry.kind == "file" else 0,
            self.modified,
            self.changed,
        )

    def is_staged_as(self, staged: StagedFile) -> bool:
        """Return True if git's index describes this very state of the file."""
        return (staged.size, staged.modified, staged.inode) == (
            self.size & 0xFFFFFFFF,
            self.modified,
            self.inode & 0xFFFFFFFF,
        )


class StartState(Struct, frozen=True):
    """The paths in the zones of a draft when it began."""

    zones: dict[str, dict[bytes, PathState | None]]
    complete: tuple[str, ...] = ()
    """The zones of which all paths were recorded, unlike one with too many."""
    repositories: tuple[str, ...] = ()
    """The top folders of the git repositories whose index was copied."""
    foreign: str = ""
    """A path that this user may change, but whose owner or group a view cannot have."""
    later: dict[str, set[bytes]] = {}
    """Paths whose state was recorded later: no copy of them belongs to that state."""

    def knows(self, change: PathChange) -> bool:
        """Return True if the state of a path is known."""
        return change.zone in self.complete or _key(change) in self.zones.get(change.zone, {})

    def state_of(self, change: PathChange) -> PathState | None:
        """Return the known state of a path; None if nothing was there."""
        return self.zones[change.zone].get(_key(change))

    def accept(self, change: PathChange) -> None:
        """Record the real file as it was when the change was read."""
        self._set(change, PathState.of_entry(change.before) if change.before else None)

    def record(self, changes: Iterable[PathChange]) -> None:
        """Record the present state of these paths, which the draft has changed itself."""
        for change in changes:
            state = None
            with suppress(FileNotFoundError, NotADirectoryError):
                state = PathState.of(os.lstat(change.place))
            self._set(change, state)

    def keep_state(self, earlier: StartState, change: PathChange) -> None:
        """Take over the earlier state of a path that the draft has changed already."""
        if earlier.knows(change):
            self.zones.setdefault(change.zone, {})[_key(change)] = earlier.state_of(change)
        if earlier.is_later(change):
            self.later.setdefault(change.zone, set()).add(_key(change))

    def is_later(self, change: PathChange) -> bool:
        """Return True if the state of a path was recorded after the start of the draft."""
        return _key(change) in self.later.get(change.zone, ())

    def _set(self, change: PathChange, state: PathState | None) -> None:
        self.zones.setdefault(change.zone, {})[_key(change)] = state
        self.later.setdefault(change.zone, set()).add(_key(change))

    def save(self, folder: Path) -> None:
        """Write the state into the folder of its draft."""
        replace_file(folder / _FILE, msgspec.msgpack.encode(self), mode=0o600, durable=False)

    @classmethod
    def load(cls, folder: Path) -> StartState:
        """Return the state in the folder of a draft; an unreadable file records no zone."""
        try:
            return msgspec.msgpack.decode((folder / _FILE).read_bytes(), type=cls)
        except (OSError, msgspec.DecodeError):
            return cls({})

    def staged_at_start(self, folder: Path, change: PathChange) -> StagedFile | None:
        """Return what git's index had staged for a file, if that is how the draft found it."""
        then = self.state_of(change) if self.knows(change) else None
        if then is None or self.is_later(change) or not stat.S_ISREG(then.mode):
            return None
        for number, top in enumerate(self.repositories):
            if not change.path.is_relative_to(top):
                continue
            name = os.fsencode(change.path.relative_to(top))
            copy = _index_copy(folder, number)
            staged = find_staged(copy, name)
            # A file that changed in the moment in which the index was written may be newer than it.
            if staged and then.is_staged_as(staged) and staged.modified < copy.stat().st_mtime_ns:
                return staged
        return None


def record_start(folder: Path, zones: Iterable[str]) -> StartState:
    """Record the zones of a draft that begins now; copy the index of each git repository."""
    found: dict[str, dict[bytes, PathState | None]] = {}
    tops: dict[str, None] = {}
    foreign: list[str] = []
    left = MAX_ENTRIES
    for zone in zones:
        for around in Path(zone).parents:
            if os.path.lexists(around / ".git"):
                tops[str(around)] = None
                break
        entries = _scan(zone, left, tops, foreign)
        if entries is not None:
            found[zone] = entries
            left -= len(entries)
    kept: list[str] = []
    for top in tops:
        index = _index_of(Path(top))
        if index is not None and _copy_index(index, _index_copy(folder, len(kept))):
            kept.append(top)
    return StartState(found, tuple(found), tuple(kept), "".join(foreign))


def _is_foreign(info: os.stat_result) -> bool:
    """Return True for an owner or group that a user namespace of this user does not have."""
    if os.geteuid() == 0 or stat.S_ISLNK(info.st_mode):
        return False
    return (info.st_uid, info.st_gid) != (os.geteuid(), os.getegid())


def _scan(
    zone: str, most: int, tops: dict[str, None], foreign: list[str]
) -> dict[bytes, PathState | None] | None:
    """Return the states of all paths below a zone; None if there are too many."""
    found: dict[bytes, PathState | None] = {b"": PathState.of(os.lstat(zone))}
    folders = [(os.fsencode(zone), b"")]
    while folders:
        folder, prefix = folders.pop()
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                try:
                    info = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                key = prefix + entry.name
                if not foreign and _is_foreign(info) and os.access(entry.path, os.W_OK):
                    foreign.append(os.fsdecode(entry.path))
                found[key] = PathState.of(info)
                if entry.name == b".git":
                    tops[os.fsdecode(folder)] = None
                if stat.S_ISDIR(info.st_mode):
                    folders.append((entry.path, key + b"/"))
        if len(found) > most:
            return None
    return found


def _key(change: PathChange) -> bytes:
    return b"/".join(os.fsencode(name) for name in change.parts)


def _index_copy(folder: Path, number: int) -> Path:
    return folder / f"{number}{_INDEX_SUFFIX}"


def _index_of(top: Path) -> Path | None:
    """Return the index of a repository or worktree, found without starting git."""
    git = top / ".git"
    if git.is_file():
        with suppress(OSError, ValueError):
            text = git.read_text(errors="surrogateescape")
            git = top / text.removeprefix("gitdir:").strip()
    index = git / "index"
    return index if index.is_file() else None


def _copy_index(index: Path, copy: Path) -> bool:
    try:
        written = index.stat().st_mtime_ns
        data = index.read_bytes()
        copy.write_bytes(data)
        os.utime(copy, ns=(written, written))
    except OSError:
        return False
    return True
