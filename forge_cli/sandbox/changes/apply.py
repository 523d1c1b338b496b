"""Apply changes to zones: all or none, even if the process is killed in between.

The previous state is saved first. Then a journal makes the changes binding: from there on they are
carried out, if necessary again after the next start. If a step fails, the same steps in the
opposite direction undo the others.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import ParamSpec

from msgspec import Struct, field
from msgspec.structs import replace

from forge_cli.core.errors import ToolError
from forge_cli.core.text import counted
from forge_cli.files.copying import copy_content
from forge_cli.files.home import make_private
from forge_cli.files.regular import sync_data, sync_folder
from forge_cli.files.replace import replace_file
from forge_cli.sandbox.changes.path_changes import (
    Entry,
    PathChange,
    PathKey,
    dump_change,
    hash_of,
    load_change,
    without_set_id,
)
from forge_cli.sandbox.changes.walk import (
    BEFORE,
    FOLDER,
    SYNCED_EACH,
    Side,
    ZoneWalk,
    sync_file_system,
)
from forge_cli.sandbox.names import shown

Arguments = ParamSpec("Arguments")
PARTS = "parts"
"""The name of the folder with the contents of partial changes."""
_CHANGES = "changes.json"
_JOURNAL = "journal"
_SIDES: tuple[Side, Side] = ("before", "after")
_BY_OTHERS = frozenset(
    {errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.ENOENT, errno.ENOTDIR, errno.ENOTEMPTY}
)
"""Errors caused by something that another program made or deleted in the meantime."""


class ChangeSet(Struct, frozen=True):
    """Changes of one command, in a folder with the new contents and the saved originals."""

    folder: Path
    changes: tuple[PathChange, ...]
    roots: Mapping[str, int] = field(default_factory=dict)
    """The inode number of each zone's root folder when the command began."""
    moves: bool = True
    """False if the new contents are copied to their places and stay where they are."""

    @classmethod
    def load(cls, folder: Path) -> ChangeSet:
        found = json.loads((folder / _CHANGES).read_bytes())
        changes = tuple(map(load_change, found["changes"]))
        return cls(folder, changes, found["roots"], found.get("moves", True))

    def save(self, *, durable: bool = False) -> None:
        """Write the changes to disk; with ``durable``, they survive a power cut."""
        kept = {
            "roots": dict(self.roots),
            "moves": self.moves,
            "changes": [dump_change(change) for change in self.changes],
        }
        replace_file(self.folder / _CHANGES, json.dumps(kept), mode=0o600, durable=durable)

    def walk(self) -> ZoneWalk:
        """Return a walk through the zones; raise Stale if one is a different folder by now."""
        return ZoneWalk(self.zones, self.folder, self.roots, moves=self.moves)

    @property
    def zones(self) -> list[str]:
        return list(dict.fromkeys(change.zone for change in self.changes))

    def source(self, change: PathChange, side: Side) -> Path:
        """Return the file with the content that a path gets on this ``side``."""
        return Path(self.source_name(change, side))

    def source_name(self, change: PathChange, side: Side) -> str:
        """Return the path of the same file as text."""
        if side == "after" and not change.partial:
            return os.path.join(_upper_name(str(self.folder), change.zone), *change.parts)
        # These files are in one flat folder each; a hash is short enough for any path.
        folder = BEFORE if side == "before" else PARTS
        return f"{self.folder}/{folder}/{sha256(os.fsencode(change.place)).hexdigest()}"


def upper_folder(folder: Path, zone: str) -> Path:
    """Return the folder with the new contents of a zone."""
    return Path(_upper_name(str(folder), zone))


@lru_cache(maxsize=16)
def _upper_name(folder: str, zone: str) -> str:
    return f"{folder}/{sha256(os.fsencode(zone)).hexdigest()[:16]}/upper"


def apply_changes(changes: ChangeSet, keep: Callable[[ChangeSet], None] | None = None) -> None:
    """Carry out all changes; raise Stale, with nothing changed, if a path has changed since.

    ``keep`` gets the changes before anything is changed, with the originals saved. Set-user-ID and
    set-group-ID bits are never applied.
    """
    changes = replace(changes, changes=tuple(map(without_set_id, changes.changes)))
    with _locked(changes.folder), changes.walk() as walk:
        # With hashes, a start after a kill can tell its own writes from those of other programs.
        changes = _hashed(changes, walk)
        walk.check_all(changes.changes)
        keep_before(changes, walk)
        if keep:
            keep(changes)
        # The order is what survives a power cut: first the list of changes and all contents are on
        # disk, then the journal that says that they count.
        changes.save(durable=True)
        _sync_sources(changes)
        try:
            replace_file(changes.folder / _JOURNAL, "", mode=0o600)
        except OSError:
            # The caller gets an error, so that the next start must not carry the changes out.
            (changes.folder / _JOURNAL).unlink(missing_ok=True)
            raise
        _carry_out(changes, walk)


def is_begun(folder: Path) -> bool:
    """Return True if changes in this folder, or one level below, are binding and not finished.

    Such a folder must not be deleted.
    """
    return (folder / _JOURNAL).exists() or any(folder.glob(f"*/{_JOURNAL}"))


def read_again(changes: ChangeSet) -> ChangeSet:
    """Return the same changes based on the current files, so that the later writer wins."""
    with changes.walk() as walk:
        found = [
            replace(change, before=walk.look(change, content=True)) for change in changes.changes
        ]
    paths = {change.path for change in found}
    again = replace(
        changes, changes=tuple(change for change in found if _is_possible(change, paths))
    )
    again.save()
    return again


def _is_possible(change: PathChange, paths: set[Path]) -> bool:
    """Return True if a change is still to be made and removes no files of other programs."""
    if change.after is not None:
        return True
    if change.before is None:
        return False
    is_folder = change.before.kind == "folder"
    return not (is_folder and set(change.path.iterdir()) - paths)


def require_unchanged(changes: ChangeSet) -> None:
    """Raise Stale if a path is not as the command found it."""
    with changes.walk() as walk:
        walk.check_all(changes.changes)


def finish_interrupted(folder: Path) -> str | None:
    """Complete what a killed process began; return a sentence about the result.

    Return None if nothing was begun, or if another process is working on it.
    """
    if not (folder / _JOURNAL).exists():
        return None
    # Another forge that holds the lock is completing the same changes right now.
    with _locked(folder, wait=False) as own:
        # It may have finished since the first look.
        if not own or not (folder / _JOURNAL).exists():
            return None
        changes = ChangeSet.load(folder)
        with changes.walk() as walk:
            _clean(walk, changes.changes)
            unknown = [change for change in changes.changes if not walk.is_ours(change)]
            if unknown:
                # A file that someone changed since then is theirs: undo all other steps.
                known = [change for change in changes.changes if change not in unknown]
                _steps(
                    walk,
                    known,
                    "before",
                    changes.source_name,
                    around=changes.changes,
                    beside_others=True,
                )
                _clean(walk, changes.changes)
                _end(changes, walk)
                name = shown(str(unknown[0].path))
                return f"interrupted changes were undone, except {name}: it has changed since then"
            try:
                _carry_out(changes, walk)
            except TakenBack as error:
                return f"interrupted changes were undone: {error.why}"
        return f"{counted(len(changes.changes), 'interrupted change')} completed"


class TakenBack(ToolError):
    """A failed step after which everything is as it was before."""

    def __init__(self, why: str) -> None:
        super().__init__(f"nothing was changed: {why}")
        self.why = why


def _carry_out(changes: ChangeSet, walk: ZoneWalk) -> None:
    """Carry out every step, and undo the others if one fails.

    If undoing fails as well, the journal and the saved originals stay for the next start.
    """
    try:
        _steps(walk, changes.changes, "after", changes.source_name)
        _end(changes, walk)
    except OSError as error:
        why = describe_os_error(error)
        try:
            _clean(walk, changes.changes)
            _steps(walk, changes.changes, "before", changes.source_name)
            _end(changes, walk)
        except OSError as again:
            kept = f"the originals are kept in {shown(str(changes.folder))}"
            raise ToolError(
                f"{why}; undoing the other changes failed: {describe_os_error(again)}; {kept}, "
                "and the next start of forge completes this"
            ) from None
        raise TakenBack(why) from None


def describe_os_error(error: OSError) -> str:
    """Return the reason of an error, with its path."""
    reason = error.strerror or str(error)
    if error.filename:
        return f"{shown(str(error.filename))}: {reason}"
    return reason


def _end(changes: ChangeSet, walk: ZoneWalk) -> None:
    """Remove the journal once everything is on disk."""
    walk.sync(changes.folder, changes.changes)
    (changes.folder / _JOURNAL).unlink()
    sync_folder(changes.folder)


def _clean(walk: ZoneWalk, changes: Sequence[PathChange]) -> None:
    depths = _stage_depths(changes)
    for change in changes:
        walk.clean(change, depths[change.key])


def _sync_sources(changes: ChangeSet) -> None:
    """Sync all files that the journal depends on: new contents and saved originals."""
    wanted: list[tuple[PathChange, Side]] = []
    for change in changes.changes:
        for side in _SIDES:
            entry = getattr(change, side)
            if entry and entry.kind == "file" and not _is_kept_by(change):
                wanted.append((change, side))
    if len(wanted) > SYNCED_EACH:
        # The new contents of a plain copy are elsewhere than the list of changes.
        uppers = {os.path.realpath(upper_folder(changes.folder, zone)) for zone in changes.zones}
        for place in {str(changes.folder), *uppers}:
            folder = os.open(place, FOLDER)
            try:
                sync_file_system(folder, place)
            finally:
                os.close(folder)
        return
    # The folder of the session may be as new as this one, and its entry must be on disk as well.
    folders = set(changes.folder.parents[:2])
    for change, side in wanted:
        path = changes.source(change, side)
        with open(path, "rb", opener=_open_source) as source:
            sync_data(source.fileno())
        folders.update(each for each in path.parents if each.is_relative_to(changes.folder))
    for each in sorted(folders):
        sync_folder(each)


def _open_source(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)


def _hashed(changes: ChangeSet, walk: ZoneWalk) -> ChangeSet:
    """Return the changes with the hash of every file.

    By these hashes, a resumed run knows which program wrote a file.
    """
    return replace(
        changes, changes=tuple(_with_hashes(changes, change, walk) for change in changes.changes)
    )


def _with_hashes(changes: ChangeSet, change: PathChange, walk: ZoneWalk) -> PathChange:
    before, after = change.before, change.after
    if before and before.kind == "file" and not before.detail:
        now = walk.look(change, content=True)
        before = replace(before, detail=now.detail if now else "")
    if after and after.kind == "file" and not after.detail:
        after = replace(after, detail=hash_of(changes.source_name(change, "after"), after.size))
    return replace(change, before=before, after=after)


def keep_before(changes: ChangeSet, walk: ZoneWalk) -> None:
    """Save what will be changed or deleted: a file by a hard link if possible, else by a copy."""
    kept = changes.folder / BEFORE
    # An earlier attempt may have been stopped here, before the journal.
    if kept.exists():
        shutil.rmtree(kept)
    make_private(kept)
    for change in changes.changes:
        if change.before and change.before.kind == "file" and not _is_kept_by(change):
            _keep(walk.parent(change), change.parts[-1], changes.source_name(change, "before"))


def _is_kept_by(change: PathChange) -> bool:
    """Return True if only the mode or times change, so that the file itself stays."""
    before, after = change.before, change.after
    return (
        before is not None
        and after is not None
        and (before.kind, before.detail) == (after.kind, after.detail)
    )


def _keep(parent: int, name: str, target: str) -> None:
    info = os.stat(name, dir_fd=parent, follow_symlinks=False)
    # A file with other names may be rewritten in place, which would change a link, too.
    if info.st_nlink == 1:
        # A link fails on another file system, and on some without hard links.
        with suppress(OSError):
            os.link(name, target, src_dir_fd=parent, follow_symlinks=False)
            return
    with open(
        os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent), "rb"
    ) as source:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as copy:
            copy_content(source.fileno(), copy.fileno())


def _steps(
    walk: ZoneWalk,
    changes: Sequence[PathChange],
    side: Side,
    source: Callable[[PathChange, Side], str],
    *,
    around: Sequence[PathChange] = (),
    beside_others: bool = False,
) -> None:
    """Bring every path to its ``side``; a step that was already done changes nothing.

    New contents are written before anything is deleted. ``around`` has all changes if ``changes``
    has only some of them. ``beside_others`` skips steps that changes of other programs make
    impossible.
    """
    wanted: Entry | None
    run = _Stepping(beside_others).run
    # Folders are opened first, since contents are staged in them and files removed from them.
    for change in changes:
        if any(entry and entry.kind == "folder" for entry in (change.before, change.after)):
            run(change, walk.open_folder, change, getattr(change, side))
    depths = _stage_depths(around or changes)
    links = _second_names(changes) if side == "after" else {}
    for change in changes:
        wanted = getattr(change, side)
        if wanted and wanted.kind == "file" and change.key not in links and not _is_kept_by(change):
            run(change, walk.stage, change, wanted, source(change, side), depths[change.key])
    walk.sync_staged()
    # Bottom up: a folder is empty before it is removed.
    for change in reversed(changes):
        wanted = getattr(change, side)
        if wanted is not None and change.what != "replaced":
            continue
        now = walk.look(change)
        if now is not None and (wanted is None or wanted.kind != now.kind):
            run(change, walk.remove, change, now)
    for change in changes:
        wanted = getattr(change, side)
        if wanted is None:
            continue
        if first := links.get(change.key):
            run(change, walk.link, first, change)
        else:
            run(change, walk.make, change, wanted, source(change, side))
    # Attributes of folders come last, and bottom up: writing in a folder needs its old mode and
    # changes its time.
    for change in reversed(changes):
        wanted = getattr(change, side)
        if wanted is not None and wanted.kind == "folder":
            run(change, walk.set_attributes, change, wanted)


def _second_names(changes: Sequence[PathChange]) -> dict[PathKey, PathChange]:
    """Return the paths that become another name of an earlier file, with that file's change."""
    firsts: dict[tuple[str, int], PathChange] = {}
    found: dict[PathKey, PathChange] = {}
    for change in changes:
        if change.after is not None and change.after.kind != "folder":
            first = firsts.setdefault((change.zone, change.after.number), change)
            if first is not change:
                found[change.key] = first
    return found


class _Stepping(Struct, frozen=True):
    """Runner of steps: an error names the path, or is skipped if others caused it."""

    beside_others: bool

    def run(
        self,
        change: PathChange,
        step: Callable[Arguments, None],
        *given: Arguments.args,
        **named: Arguments.kwargs,
    ) -> None:
        """Carry out a step of a change."""
        try:
            step(*given, **named)
        except OSError as error:
            if not self.beside_others or error.errno not in _BY_OTHERS:
                raise OSError(error.errno, error.strerror, change.place) from None


def _stage_depths(changes: Sequence[PathChange]) -> dict[PathKey, int]:
    """Return for each path the depth of the nearest folder that exists both before and after."""
    passing: set[PathKey] = set()
    for change in changes:
        if not all(entry and entry.kind == "folder" for entry in (change.before, change.after)):
            passing.add(change.key)
    depths: dict[PathKey, int] = {}
    of_folder: dict[PathKey, int] = {}
    for change in changes:
        folder = change.zone, change.parts[:-1]
        if folder not in of_folder:
            of_folder[folder] = _stable_depth(folder, passing)
        depths[change.key] = of_folder[folder]
    return depths


def _stable_depth(folder: PathKey, passing: Container[PathKey]) -> int:
    zone, parts = folder
    for depth in range(len(parts)):
        if (zone, parts[: depth + 1]) in passing:
            return depth
    return len(parts)


@contextmanager
def _locked(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    descriptor = os.open(folder, FOLDER)
    try:
        try:
            flags = fcntl.LOCK_EX
            if not wait:
                flags |= fcntl.LOCK_NB
            fcntl.flock(descriptor, flags)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)
