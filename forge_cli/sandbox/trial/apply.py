"""Applying changes to zones: all of them or none, also where the process is killed in between.

What was there before is kept first, then a journal says that the changes count, and from there on they are carried
out, again after the next start if need be. Where one fails, the same steps the other way round take them back.
"""

from __future__ import annotations

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
from forge_cli.files.home import make_private
from forge_cli.files.replace import fill, replace_file
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.trial.changes import Entry, PathChange, dump_change, hash_of, load_change, without_set_id
from forge_cli.sandbox.trial.walk import BEFORE, FOLDER, Side, ZoneWalk

_CHANGES, _JOURNAL = "changes.json", "journal"


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
        kept = {"roots": dict(self.roots), "changes": [dump_change(change) for change in self.changes]}
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


def apply(changes: ChangeSet, keep: Callable[[ChangeSet], None] | None = None) -> None:
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
        replace_file(changes.folder / _JOURNAL, "", mode=0o600)
        _carry_out(changes, walk)


def read_again(changes: ChangeSet) -> ChangeSet:
    """The same changes to what is there now, where somebody else was there meanwhile: the later one counts."""
    with changes.walk() as walk:
        found = [replace(change, before=walk.look(change, content=True)) for change in changes.changes]
    paths = {change.path for change in found}
    again = replace(changes, changes=tuple(change for change in found if _is_possible(change, paths)))
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
    with changes.walk() as walk:
        walk.check_all(changes.changes)


def finish(folder: Path) -> str | None:
    """Complete what a process that was killed began; a sentence about the result, None where nothing was begun."""
    if not (folder / _JOURNAL).exists():
        return None
    with _locked(folder, wait=False) as own:
        if not own or not (folder / _JOURNAL).exists():
            return None
        changes = ChangeSet.load(folder)
        with changes.walk() as walk:
            unknown = [change for change in changes.changes if not walk.is_ours(change)]
            if not unknown:
                _carry_out(changes, walk)
                return f"{counted(len(changes.changes), 'change')} that were cut off are done now"
            with suppress(OSError):  # as much as somebody else's changes let us
                _steps(walk, [change for change in changes.changes if change not in unknown], "before", changes.source)
            (folder / _JOURNAL).unlink()
        return f"changes that were cut off are taken back, but for {shown(str(unknown[0].path))}: it was changed since"


def _carry_out(changes: ChangeSet, walk: ZoneWalk) -> None:
    """Do every step; where one fails the others are taken back."""
    try:
        _steps(walk, changes.changes, "after", changes.source)
    except OSError as error:
        _steps(walk, changes.changes, "before", changes.source)
        (changes.folder / _JOURNAL).unlink()
        raise ToolError(f"nothing was changed: {shown(str(error.filename or ''))}: {error.strerror}") from None
    walk.sync(changes.folder)
    (changes.folder / _JOURNAL).unlink()


def _hashed(changes: ChangeSet, walk: ZoneWalk) -> ChangeSet:
    """The same, with the hash of every file: by these it is told later what is whose."""
    return replace(changes, changes=tuple(_with_hashes(changes, change, walk) for change in changes.changes))


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
            fill(copy.fileno(), source)


def _steps(
    walk: ZoneWalk, changes: Sequence[PathChange], side: Side, source: Callable[[PathChange, Side], Path]
) -> None:
    """Make every path what it is to be; a step that was done already changes nothing."""
    wanted: Entry | None
    for change in changes:
        if any(entry and entry.kind == "folder" for entry in (change.before, change.after)):
            walk.open_folder(change, getattr(change, side))
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
