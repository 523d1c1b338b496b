"""The changes of a command to a zone, read from the upper folder of its overlay."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from forge_cli.core.sandbox import READ_MAX
from forge_cli.sandbox.git.ignored_files import IgnoredFiles
from forge_cli.sandbox.git.index import says_the_same

_OVERLAY = "user.overlay."
_OPAQUE = "user.overlay.opaque"
_ESCAPED = "user.overlay.overlay."
"""The prefix under which an overlay stores attributes of a command that look like its own."""
# A command without privileges can set only these attributes.
_KEPT = ("user.", "system.posix_acl_")
_CHUNK = 1 << 18
_SET_ID = stat.S_ISUID | stat.S_ISGID
SCRATCH = frozenset(
    (
        "__pycache__",
        ".pytest_cache",
        ".mypy_cache",
        ".ruff_cache",
        ".hypothesis",
        ".phpunit.cache",
        "node_modules/.cache",
        ".eslintcache",
        ".turbo",
        ".parcel-cache",
        ".tsbuildinfo",
    )
)
"""Caches that programs leave behind for their own speed; ``a/b`` is a folder ``b`` inside ``a``."""
_REFRESHED = (".git", "index")
"""A file that git rewrites on every look; the change is dropped if the same files are staged."""
Kind = Literal["file", "folder", "link", "pipe"]
PathKey = tuple[str, tuple[str, ...]]
What = Literal["made", "changed", "deleted", "replaced", "mode", "times", "linked"]


def is_scratch(parts: Sequence[str]) -> bool:
    """Return True if a path is in a cache that is always dropped."""
    return any(
        f"{around}/{name}" in SCRATCH or name in SCRATCH for around, name in pairwise(("", *parts))
    )


class TooManyChanges(Exception):
    """More changes than may be read, or reading them takes too long."""


@dataclass
class ReadUntil:
    """A bound on reading changes: a number of paths, and a time of ``time.monotonic``."""

    paths: float = inf
    time: float = inf

    def count(self) -> None:
        """Count one path; raise TooManyChanges if the number or the time is exceeded."""
        self.paths -= 1
        if self.paths < 0 or monotonic() > self.time:
            raise TooManyChanges


FOREVER = ReadUntil()


class UnknownChange(Exception):
    """A change that cannot be described or repeated, such as making a device."""


class Entry(Struct, frozen=True):
    """The state of a path before or after the changes."""

    kind: Kind
    mode: int
    owner: tuple[int, int]
    size: int = 0
    detail: str = ""
    """The hash of a file, if it has been computed, or the target of a link."""
    modified: int = 0
    number: int = 0
    """The inode number of an existing file; new files with the same number are one file."""
    changed: int = 0
    """The change time (ctime): every modification of a file updates it."""


class PathChange(Struct, frozen=True):
    """One path before and after the command; None if nothing is there."""

    zone: str
    parts: tuple[str, ...]
    before: Entry | None
    after: Entry | None
    loaded: str | None = None
    """Why changing the path asks although no name in it is protected: forge loads or obeys the
    file."""
    partial: bool = False
    """True if ``after`` is only a part of what the command wrote, stored in a file of its own."""

    @property
    def path(self) -> Path:
        return Path(self.zone, *self.parts)

    @property
    def place(self) -> str:
        """The path as text, which is much cheaper to make than a Path."""
        return os.path.join(self.zone, *self.parts)

    @property
    def key(self) -> PathKey:
        """The path as a tuple, which is much cheaper to make than a Path."""
        return self.zone, self.parts

    @property
    def what(self) -> What:
        if self.before is None:
            return "made"
        if self.after is None:
            return "deleted"
        if self.before.kind != self.after.kind:
            return "replaced"
        if (self.before.size, self.before.detail) != (self.after.size, self.after.detail):
            return "changed"
        if (self.before.mode, self.before.owner) != (self.after.mode, self.after.owner):
            return "mode"
        if self.before.modified == self.after.modified:
            return "linked"
        return "times"


def entry_of(
    path: Path | str, info: os.stat_result, *, content: bool = True, within: int | None = None
) -> Entry:
    """Return the entry at a path; without ``content``, a file is not hashed.

    ``within`` is an open folder that contains the path.
    """
    kind = _kind(info)
    detail = ""
    if kind == "link":
        detail = os.readlink(path, dir_fd=within)
    elif kind == "file" and content:
        detail = hash_of(path, info.st_size, within)
    size = info.st_size if kind == "file" else 0
    owner = info.st_uid, info.st_gid
    mode = 0 if kind == "link" else stat.S_IMODE(info.st_mode)
    return Entry(kind, mode, owner, size, detail, info.st_mtime_ns, info.st_ino, info.st_ctime_ns)


def hash_of(path: Path | str, size: int, within: int | None = None) -> str:
    """Return the hash of a file; of a very large file, that of its beginning and its size."""
    digest = sha256()
    left = READ_MAX
    descriptor = _open_file(path, within)
    try:
        while left:
            data = os.read(descriptor, min(left, _CHUNK))
            digest.update(data)
            left -= len(data)
            # Reading less than a chunk has reached the end of a regular file.
            if len(data) < _CHUNK:
                break
    finally:
        os.close(descriptor)
    if size > READ_MAX:
        digest.update(b"%d" % size)
    return digest.hexdigest()


def _open_file(path: Path | str, within: int | None) -> int:
    # If a pipe has taken the place of the file, opening it must not wait for a writer.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return os.open(path, flags, dir_fd=within)


def _kind(info: os.stat_result) -> Kind:
    if stat.S_ISREG(info.st_mode):
        return "file"
    if stat.S_ISDIR(info.st_mode):
        return "folder"
    if stat.S_ISLNK(info.st_mode):
        return "link"
    if stat.S_ISFIFO(info.st_mode):
        return "pipe"
    raise UnknownChange("a device or a socket")


def read_changes(
    zone: Path, upper: Path, *, scratch: bool, until: ReadUntil = FOREVER
) -> list[PathChange]:
    """Return all changes of a zone, folders before their contents; with ``scratch``, caches too."""
    try:
        return sorted(
            Reader(str(zone), scratch, until, IgnoredFiles()).read(upper),
            key=lambda change: change.parts,
        )
    except OSError as error:
        raise UnknownChange(f"{error.filename}: {error.strerror}") from None
    except RecursionError:
        raise UnknownChange("its folders are nested too deeply") from None


class Reader(Struct, frozen=True):
    """Reader of the changes of one zone."""

    zone: str
    scratch: bool
    until: ReadUntil
    ignored: IgnoredFiles

    def read(self, upper: Path) -> Iterator[PathChange]:
        info = os.lstat(upper)
        _let_owner_in(upper, info)
        yield from self._folder_itself((), upper, info, os.lstat(self.zone))
        yield from self._read(upper, Path(self.zone), (), opaque=False)

    def _read(
        self, upper: Path, lower: Path | None, parts: tuple[str, ...], *, opaque: bool
    ) -> Iterator[PathChange]:
        names = set()
        for name in os.listdir(upper):
            names.add(name)
            yield from self._entry(
                upper / name, lower and lower / name, (*parts, name), opaque=opaque
            )
        # An opaque folder replaces the one below it: what is not in it is deleted.
        if opaque and lower is not None:
            for name in os.listdir(lower):
                if name not in names:
                    yield from self._deleted((*parts, name), lower / name)

    def _entry(
        self, upper: Path, lower: Path | None, parts: tuple[str, ...], *, opaque: bool
    ) -> Iterator[PathChange]:
        self.until.count()
        info = os.lstat(upper)
        before = _lstat(lower)
        # An overlay marks a deleted path by a character device with the number 0/0.
        gone = stat.S_ISCHR(info.st_mode) and info.st_rdev == 0
        # Deleting a whole cache is a change; deleting a file inside one is not.
        if not self.scratch and is_scratch(parts[:-1] if gone else parts):
            return
        if gone:
            if lower and before:
                yield from self._deleted(parts, lower)
            return
        if stat.S_ISDIR(info.st_mode):
            yield from self._folder(upper, lower, parts, info, before, opaque=opaque)
            return
        if before and lower and stat.S_ISDIR(before.st_mode):
            # The folder itself is not deleted but replaced, by the change below.
            for change in self._deleted(parts, lower):
                if change.parts != parts:
                    yield change
        yield from self.single(upper, lower, parts, info, before)

    def _folder(
        self,
        upper: Path,
        lower: Path | None,
        parts: tuple[str, ...],
        info: os.stat_result,
        before: os.stat_result | None,
        *,
        opaque: bool,
    ) -> Iterator[PathChange]:
        inside = lower if before and stat.S_ISDIR(before.st_mode) else None
        _let_owner_in(upper, info)
        if before is None or inside is None:
            old = entry_of(lower, before, content=False) if lower and before else None
            yield PathChange(self.zone, parts, old, entry_of(upper, info))
        else:
            yield from self._folder_itself(parts, upper, info, before)
        if inside:
            _check_attributes(inside, upper)
        yield from self._read(upper, inside, parts, opaque=opaque or is_opaque(upper))

    def _folder_itself(
        self, parts: tuple[str, ...], upper: Path, info: os.stat_result, before: os.stat_result
    ) -> Iterator[PathChange]:
        now = entry_of(upper, info)
        then = entry_of(upper, before)
        # Such a folder has to be opened before its contents can be written.
        is_closed = not now.mode & 0o200 and bool(os.listdir(upper))
        if (now.mode, now.owner) != (then.mode, then.owner) or is_closed:
            yield PathChange(self.zone, parts, then, now)

    def single(
        self,
        upper: Path,
        lower: Path | None,
        parts: tuple[str, ...],
        info: os.stat_result,
        before: os.stat_result | None,
    ) -> Iterator[PathChange]:
        """Yield the change of anything but a folder, if it is one."""
        if not os.access(upper, os.R_OK, follow_symlinks=False) and stat.S_ISREG(info.st_mode):
            # Hashing has to read the copy; ``info`` still has the mode that the command set.
            os.chmod(upper, stat.S_IMODE(info.st_mode) | 0o400)
        # Files of different sizes differ anyway, so that hashing them would be wasted time.
        content = before is not None and before.st_size == info.st_size
        after = entry_of(upper, info, content=content)
        old = entry_of(lower, before, content=content) if lower and before else None
        if (
            old
            and lower
            and old.kind == after.kind == "file"
            and (old.size, old.detail) == (after.size, after.detail)
        ):
            _check_attributes(lower, upper)
        # Opening a file for writing copies it up, even if nothing is written.
        if old and _same(old, after) and info.st_nlink == 1:
            return
        if (
            old
            and lower
            and old.kind == after.kind == "file"
            and parts[-2:] == _REFRESHED
            and says_the_same(lower, upper)
        ):
            return
        change = PathChange(self.zone, parts, old, after)
        # Build tools touch files that git ignores; a new time alone is not worth a question.
        if (
            not self.scratch
            and change.what == "times"
            and info.st_nlink == 1
            and change.path in self.ignored
        ):
            return
        yield change

    def _deleted(self, parts: tuple[str, ...], lower: Path) -> Iterator[PathChange]:
        self.until.count()
        info = os.lstat(lower)
        if stat.S_ISDIR(info.st_mode):
            for name in os.listdir(lower):
                yield from self._deleted((*parts, name), lower / name)
        yield PathChange(self.zone, parts, entry_of(lower, info, content=False), None)


def _let_owner_in(upper: Path, info: os.stat_result) -> None:
    """Make a folder of the copy accessible, so that files can be moved out of it.

    Its real mode is part of the change.
    """
    if not os.access(upper, os.R_OK | os.W_OK | os.X_OK):
        os.chmod(upper, stat.S_IMODE(info.st_mode) | 0o700)


def _check_attributes(lower: Path, upper: Path) -> None:
    """Raise UnknownChange if a command set attributes of an otherwise unchanged path.

    Such attributes are not applied.
    """
    if attributes_of(lower) != attributes_of(upper):
        raise UnknownChange(f"it set attributes of {upper.name}")


def attributes_of(path: Path) -> dict[str, bytes]:
    """Return the extended attributes of a file, without those of the overlay itself."""
    if sys.platform != "linux":
        return {}
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return {}
        raise
    found = {}
    for name in names:
        is_of_overlay = name.startswith(_OVERLAY) and not name.startswith(_ESCAPED)
        if name.startswith(_KEPT) and not is_of_overlay:
            found[name] = os.getxattr(path, name, follow_symlinks=False)
    return found


def _same(one: Entry, other: Entry) -> bool:
    """Return True if both look the same: opening a file for writing already copies it up."""
    return all(getattr(one, name) == getattr(other, name) for name in _COMPARED)


_COMPARED = ("kind", "mode", "owner", "size", "detail", "modified")


def is_opaque(folder: Path) -> bool:
    """Return True if a folder of a copy hides the real folder in its place."""
    try:
        return os.getxattr(folder, _OPAQUE, follow_symlinks=False) == b"y"
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.ENOTSUP):
            return False
        raise


def _lstat(path: Path | None) -> os.stat_result | None:
    try:
        return None if path is None else os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def without_set_id(change: PathChange) -> PathChange:
    """Return the change without set-user-ID and set-group-ID bits.

    A file keeps those that it had if its contents stay, and a new folder gets the group of its
    parent.
    """
    before, after = change.before, change.after
    if after is None or not after.mode & _SET_ID:
        return change
    had = 0
    if (
        before
        and before.kind == after.kind
        and (before.size, before.detail) == (after.size, after.detail)
    ):
        had = before.mode & _SET_ID
    elif before is None and after.kind == "folder":
        had = _inherited(change.path)
    return replace(change, after=replace(after, mode=(after.mode & ~_SET_ID) | (after.mode & had)))


def _inherited(path: Path) -> int:
    """Return the set-group-ID bit that the kernel gives a new folder in this place."""
    around = next((info for folder in path.parents if (info := _lstat(folder))), None)
    if around:
        return around.st_mode & stat.S_ISGID
    return 0


def dump_change(change: PathChange) -> dict[str, Any]:
    """Return a change as JSON; names that are not UTF-8 keep their bytes."""
    found: dict[str, Any] = {
        "zone": change.zone,
        "parts": change.parts,
        "loaded": change.loaded,
        "partial": change.partial,
    }
    for name in _SIDES:
        entry = getattr(change, name)
        if entry is not None:
            found[name] = asdict(entry)
    return found


def load_change(data: dict[str, Any]) -> PathChange:
    """Read a change that ``dump_change`` has written."""
    entries: list[Entry | None] = []
    for name in _SIDES:
        entry = data.get(name)
        # JSON has no tuples
        entries.append(entry and Entry(**{**entry, "owner": tuple(entry["owner"])}))
    before, after = entries
    return PathChange(
        data["zone"],
        tuple(data["parts"]),
        before,
        after,
        data.get("loaded"),
        data.get("partial", False),
    )


_SIDES = ("before", "after")
