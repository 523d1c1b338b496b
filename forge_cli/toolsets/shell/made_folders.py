"""Folders that a trial made, as one line each; what has to be seen by itself is left out of them."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from forge_cli.core.text import counted
from forge_cli.sandbox.changes.path_changes import (
    PathChange,
    PathKey,
    attributes_of,
    without_set_id,
)

FOLDED_FROM = 11
"""Paths below a new folder; of fewer than that each is shown."""
_UNITS = ("KB", "MB", "GB", "TB")

IsProtected = Callable[[PathChange], bool]
SourceOf = Callable[[PathChange], Path]


class MadeFolder(Struct, frozen=True):
    """A folder that was not there before, with everything in it that one line stands for."""

    change: PathChange
    inside: Sequence[PathChange]

    @property
    def size(self) -> str:
        """How much it holds, such as ``862 files, 12 MB``."""
        sizes = [
            change.after.size
            for change in self.inside
            if change.after and change.after.kind != "folder"
        ]
        return f"{counted(len(sizes), 'file')}, {readable_size(sum(sizes))}"


def readable_size(size: int) -> str:
    """Return a number of bytes as people read it, ``12 MB``; a small one exactly."""
    if size < 1000:
        return counted(size, "byte")
    number, units = size / 1000, list(_UNITS)
    while number >= 999.5 and len(units) > 1:
        number /= 1000
        units.pop(0)
    return f"{number:.1f} {units[0]}" if number < 9.95 else f"{number:.0f} {units[0]}"


def made_folders(
    changes: Sequence[PathChange], is_protected: IsProtected, source: SourceOf
) -> Iterator[MadeFolder]:
    """Yield each new folder that holds enough, the highest of those that lie in each other."""
    tops = {change.key: change for change in changes if _is_new_folder(change)}
    groups: dict[PathKey, list[PathChange]] = defaultdict(list)
    for change in changes:
        if highest := _highest(change, tops):
            groups[highest].append(change)
    names = Counter((change.zone, change.after.number) for change in changes if change.after)
    for key, inside in groups.items():
        if is_protected(tops[key]):
            continue
        own = Counter((change.zone, change.after.number) for change in inside if change.after)
        shared = {number for number, count in own.items() if names[number] != count}
        folder = _Inside(tops[key], shared, is_protected, source)
        kept = [change for change in inside if not folder.is_told_alone(change)]
        if len(kept) >= FOLDED_FROM:
            yield MadeFolder(tops[key], kept)


def _highest(change: PathChange, tops: Container[PathKey]) -> PathKey | None:
    """The highest of these folders that a path lies in."""
    ways = ((change.zone, change.parts[:depth]) for depth in range(len(change.parts)))
    return next((way for way in ways if way in tops), None)


def _is_new_folder(change: PathChange) -> bool:
    return change.before is None and change.after is not None and change.after.kind == "folder"


class _Inside(Struct, frozen=True):
    """The test of what may stand behind the line of one folder."""

    folder: PathChange
    shared: set[tuple[str, int]]
    """Files that have a name outside of it as well."""
    is_protected: IsProtected
    source: SourceOf

    def is_told_alone(self, change: PathChange) -> bool:
        """Return True if a change needs a row of its own, because it is more than a file that was made here."""
        after = change.after
        if after is None or change.before is not None or self.is_protected(change):
            return True
        if after.kind == "link":
            return leads_out(change, after.detail, self.folder.path)
        if after.kind == "pipe" or (change.zone, after.number) in self.shared:
            return True
        if self.folder.after is None or after.owner != self.folder.after.owner:
            return True
        return _has_more_rights(change) or self._has_attributes(change)

    def _has_attributes(self, change: PathChange) -> bool:
        try:
            return bool(attributes_of(self.source(change)))
        except OSError:
            return True


def leads_out(change: PathChange, target: str, folder: Path) -> bool:
    """Return True unless a link leads to a path below a folder, whatever other links lie on the way."""
    parts = Path(target).parts
    climbs = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
    if ".." in parts[climbs:]:  # behind a link, it is not what it looks like
        return True
    return not Path(os.path.normpath(change.path.parent / target)).is_relative_to(folder)


def _has_more_rights(change: PathChange) -> bool:
    """Return True if others may do more with it than the umask lets them, or it runs as somebody else."""
    after, applied = change.after, without_set_id(change).after
    if after is None or applied is None or after.mode != applied.mode:
        return True
    inherited = 0o2000 if after.kind == "folder" else 0
    return bool(after.mode & ~new_mode("folder") & ~inherited)


@cache
def new_mode(kind: str) -> int:
    """The mode that a new file or folder gets by the umask, which commands have from this process."""
    with open("/proc/self/status") as facts:
        masks = [int(line.split()[1], 8) for line in facts if line.startswith("Umask:")]
    return (0o777 if kind == "folder" else 0o666) & ~(masks[0] if masks else 0o022)


def paths_of(folders: Iterable[MadeFolder]) -> set[PathKey]:
    """The paths that stand behind lines of folders."""
    found: set[PathKey] = set()
    for folder in folders:
        found.update(change.key for change in folder.inside)
    return found
