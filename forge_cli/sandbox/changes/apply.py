"""Applying changes to zones: all of them or none, also where the process is killed in between.

What was there before is kept first, then a journal says that the changes count, and from there on they are carried
out, again after the next start if need be. Where one fails, the same steps the other way round take them back.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

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

_CHANGES, _JOURNAL = "changes.json", "journal"
_SIDES: tuple[Side, Side] = ("before", "after")
_BY_OTHERS = frozenset(
    {errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.ENOENT, errno.ENOTDIR, errno.ENOTEMPTY}
)
"""Errors that come of what somebody else has made or deleted meanwhile."""


class ChangeSet(Struct, frozen=True):
    """The changes of one command in a folder of their own, with what is to be written and what was there before."""

    folder: Path
    changes: tuple[PathChange, ...]
    roots: Mapping[str, int] = field(default_factory=dict)
    """The number of each zone's own folder on disk, when the command began."""

    @classmethod
    def load(cls, folder: Path) -> ChangeSet:
        found = json.loads((folder / _CHANGES).read_bytes())
        return cls(folder, tuple(map(load_change, found["changes"])), found["roots"])

    def save(self, *, durable: bool = False) -> None:
        """Write them down; before they are carried out, so that a power cut does not lose them."""
        kept = {
            "roots": dict(self.roots),
            "changes": [dump_change(change) for change in self.changes],
        }
        replace_file(self.folder / _CHANGES, json.dumps(kept), mode=0o600, durable=durable)

    def walk(self) -> ZoneWalk:
        """A walk through its zones; Stale where one of them is another folder by now."""
        return ZoneWalk(self.zones, self.folder, self.roots)

    @property
    def zones(self) -> list[str]:
        return list(dict.fromkeys(change.zone for change in self.changes))

    def source(self, change: PathChange, side: Side) -> Path:
        """The file with the content that a path is to get."""
        if side == "after":
            return upper_folder(self.folder, change.zone).joinpath(*change.parts)
        return self.folder / BEFORE / sha256(os.fsencode(change.path)).hexdigest()


@lru_cache(maxsize=16)
def upper_folder(folder: Path, zone: str) -> Path:
    return folder / sha256(os.fsencode(zone)).hexdigest()[:16] / "upper"


def apply_changes(changes: ChangeSet, keep: Callable[[ChangeSet], None] | None = None) -> None:
    """Carry out all changes, if everything is still as the command found it; else Stale, and nothing is changed.

    ``keep`` is called before anything is changed, with what was there in its place. The bits by which a file runs as
    another user or group are never applied.
    """
    changes = replace(changes, changes=tuple(map(without_set_id, changes.changes)))
    with _locked(changes.folder), changes.walk() as walk:
        changes = _hashed(changes, walk)
        walk.check_all(changes.changes)
        keep_before(changes, walk)
        if keep:
            keep(changes)
        changes.save(durable=True)
        _sync_sources(changes)
        try:
            replace_file(changes.folder / _JOURNAL, "", mode=0o600)
        except OSError:
            (changes.folder / _JOURNAL).unlink(missing_ok=True)
            raise
        _carry_out(changes, walk)


def is_begun(folder: Path) -> bool:
    """Whether changes in this folder, or in one of those in it, count and are not done yet: it has to stay."""
    return (folder / _JOURNAL).exists() or any(folder.glob(f"*/{_JOURNAL}"))


def read_again(changes: ChangeSet) -> ChangeSet:
    """The same changes to what is there now, where somebody else was there meanwhile: the later one counts."""
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
    """Whether there is something to do, and no folder would go away with what others have put there."""
    if change.after is not None:
        return True
    kept = (
        change.before is not None
        and change.before.kind == "folder"
        and set(change.path.iterdir()) - paths
    )
    return change.before is not None and not kept


def require_unchanged(changes: ChangeSet) -> None:
    """Stale where something is not as the command found it."""
    with changes.walk() as walk:
        walk.check_all(changes.changes)


def finish_interrupted(folder: Path) -> str | None:
    """Complete what a process that was killed began; a sentence about the result, None where nothing was begun."""
    if not (folder / _JOURNAL).exists():
        return None
    with _locked(folder, wait=False) as own:
        if not own or not (folder / _JOURNAL).exists():
            return None
        changes = ChangeSet.load(folder)
        with changes.walk() as walk:
            _clean(walk, changes.changes)
            unknown = [change for change in changes.changes if not walk.is_ours(change)]
            if unknown:
                known = [change for change in changes.changes if change not in unknown]
                _steps(
                    walk,
                    known,
                    "before",
                    changes.source,
                    around=changes.changes,
                    beside_others=True,
                )
                _clean(walk, changes.changes)
                _end(changes, walk)
                name = shown(str(unknown[0].path))
                return f"changes that were cut off are taken back, but for {name}: it was changed since"
            try:
                _carry_out(changes, walk)
            except TakenBack as error:
                return f"changes that were cut off are taken back: {error.why}"
        return f"{counted(len(changes.changes), 'change')} that were cut off are done now"


class TakenBack(ToolError):
    """A step failed, and everything is as it was before."""

    def __init__(self, why: str) -> None:
        super().__init__(f"nothing was changed: {why}")
        self.why = why


def _carry_out(changes: ChangeSet, walk: ZoneWalk) -> None:
    """Do every step; where one fails the others are taken back.

    Where that fails as well, the journal and all that is kept stay for the next start.
    """
    try:
        _steps(walk, changes.changes, "after", changes.source)
        _end(changes, walk)
    except OSError as error:
        why = describe_os_error(error)
        try:
            _clean(walk, changes.changes)
            _steps(walk, changes.changes, "before", changes.source)
            _end(changes, walk)
        except OSError as again:
            kept = f"what was there is kept in {shown(str(changes.folder))}"
            raise ToolError(
                f"{why}, and what was done by then could not be taken back: {describe_os_error(again)}; {kept}, "
                "and the next start of forge completes it"
            ) from None
        raise TakenBack(why) from None


def describe_os_error(error: OSError) -> str:
    """Why something failed, with the path."""
    reason = error.strerror or str(error)
    return f"{shown(str(error.filename))}: {reason}" if error.filename else reason


def _end(changes: ChangeSet, walk: ZoneWalk) -> None:
    """Nothing is left to do: from here on the journal is not needed, and neither is what it would need."""
    walk.sync(changes.folder, changes.changes)
    (changes.folder / _JOURNAL).unlink()
    sync_folder(changes.folder)


def _clean(walk: ZoneWalk, changes: Sequence[PathChange]) -> None:
    depths = _stage_depths(changes)
    for change in changes:
        walk.clean(change, depths[change.path])


def _sync_sources(changes: ChangeSet) -> None:
    """See that what the journal will count on is on disk: what is to be written, and what was there before."""
    wanted: list[Path] = []
    for change in changes.changes:
        for side in _SIDES:
            entry = getattr(change, side)
            if entry and entry.kind == "file" and not _is_kept_by(change):
                wanted.append(changes.source(change, side))
    if len(wanted) > SYNCED_EACH:
        folder = os.open(changes.folder, FOLDER)
        try:
            sync_file_system(folder, str(changes.folder))
        finally:
            os.close(folder)
        return
    folders = set(changes.folder.parents[:2])  # that of the session may be as new as this one
    for path in wanted:
        with open(path, "rb", opener=_open_source) as source:
            sync_data(source.fileno())
        folders.update(each for each in path.parents if each.is_relative_to(changes.folder))
    for each in sorted(folders):
        sync_folder(each)


def _open_source(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)


def _hashed(changes: ChangeSet, walk: ZoneWalk) -> ChangeSet:
    """The same, with the hash of every file: by these it is told later what is whose."""
    return replace(
        changes, changes=tuple(_with_hashes(changes, change, walk) for change in changes.changes)
    )


def _with_hashes(changes: ChangeSet, change: PathChange, walk: ZoneWalk) -> PathChange:
    before, after = change.before, change.after
    if before and before.kind == "file" and not before.detail:
        now = walk.look(change, content=True)
        before = replace(before, detail=now.detail if now else "")
    if after and after.kind == "file" and not after.detail:
        after = replace(after, detail=hash_of(changes.source(change, "after"), after.size))
    return replace(change, before=before, after=after)


def keep_before(changes: ChangeSet, walk: ZoneWalk) -> None:
    """Keep what will be changed or deleted: a file by another name where that is possible, else by a copy."""
    kept = changes.folder / BEFORE
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
    return (
        before is not None
        and after is not None
        and (before.kind, before.detail) == (after.kind, after.detail)
    )


def _keep(parent: int, name: str, target: Path) -> None:
    info = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if info.st_nlink == 1:
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
    source: Callable[[PathChange, Side], Path],
    *,
    around: Sequence[PathChange] = (),
    beside_others: bool = False,
) -> None:
    """Make every path what it is to be; a step that was done already changes nothing.

    What files are to hold is written first, before anything is deleted. ``around`` are all changes, where these are
    only some of them; ``beside_others`` leaves out what somebody else's changes do not let us do.
    """
    wanted: Entry | None
    steps = _Stepping(beside_others)
    for change in changes:
        if any(entry and entry.kind == "folder" for entry in (change.before, change.after)):
            with steps(change):
                walk.open_folder(change, getattr(change, side))
    depths = _stage_depths(around or changes)
    links = _second_names(changes) if side == "after" else {}
    for change in changes:
        wanted = getattr(change, side)
        if (
            wanted
            and wanted.kind == "file"
            and change.path not in links
            and not _is_kept_by(change)
        ):
            with steps(change):
                walk.stage(change, wanted, source(change, side), depths[change.path])
    walk.sync_staged()
    for change in reversed(changes):
        wanted = getattr(change, side)
        now = walk.look(change) if wanted is None or change.what == "replaced" else None
        if now is not None and (wanted is None or wanted.kind != now.kind):
            with steps(change):
                walk.remove(change, now)
    for change in changes:
        wanted = getattr(change, side)
        if wanted is None:
            continue
        with steps(change):
            if first := links.get(change.path):
                walk.link(first, change)
            else:
                walk.make(change, wanted, source(change, side))
    for change in reversed(changes):
        wanted = getattr(change, side)
        if wanted is not None and wanted.kind == "folder":
            with steps(change):
                walk.set_attributes(change, wanted)


def _second_names(changes: Sequence[PathChange]) -> dict[Path, PathChange]:
    """The paths that are to be another name of a file that comes before them, with that one."""
    firsts: dict[tuple[str, int], PathChange] = {}
    found: dict[Path, PathChange] = {}
    for change in changes:
        if change.after is not None and change.after.kind != "folder":
            first = firsts.setdefault((change.zone, change.after.number), change)
            if first is not change:
                found[change.path] = first
    return found


class _Stepping(Struct, frozen=True):
    """Around each step: an error names the path, and one that somebody else's changes make may be passed over."""

    beside_others: bool

    @contextmanager
    def __call__(self, change: PathChange) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self.beside_others or error.errno not in _BY_OTHERS:
                raise OSError(error.errno, error.strerror, str(change.path)) from None


def _stage_depths(changes: Sequence[PathChange]) -> dict[Path, int]:
    """How deep in its zone the folder is, for each path, that is there before the changes and after them."""
    passing: set[Path] = set()
    for change in changes:
        if not all(entry and entry.kind == "folder" for entry in (change.before, change.after)):
            passing.add(change.path)
    depths: dict[Path, int] = {}
    for change in changes:
        depth = 0
        place = Path(change.zone)
        for name in change.parts[:-1]:
            place /= name
            if place in passing:
                break
            depth += 1
        depths[change.path] = depth
    return depths


@contextmanager
def _locked(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    descriptor = os.open(folder, FOLDER)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)
