"""New folders of a trial, shown as one line each, except for changes that need their own row."""

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
"""Paths in a new folder from which it is shown as one line."""
_UNITS = ("KB", "MB", "GB", "TB")

IsProtected = Callable[[PathChange], bool]
SourceOf = Callable[[PathChange], Path]


class MadeFolder(Struct, frozen=True):
    """A new folder, and the changes in it that share its line."""

    change: PathChange
    inside: Sequence[PathChange]

    @property
    def size(self) -> str:
        """The size of its contents, such as ``862 files, 12 MB``."""
        sizes: list[int] = []
        for change in self.inside:
            if change.after and change.after.kind != "folder":
                sizes.append(change.after.size)
        return f"{counted(len(sizes), 'file')}, {readable_size(sum(sizes))}"


def readable_size(size: int) -> str:
    """Return a number of bytes for people, such as ``12 MB``."""
    if size < 1000:
        return counted(size, "byte")
    number = size / 1000
    units = list(_UNITS)
    while number >= 999.5 and len(units) > 1:  # 999.5 would be rounded to 1000
        number /= 1000
        units.pop(0)
    if number < 9.95:  # 9.95 would be rounded to 10.0
        return f"{number:.1f} {units[0]}"
    return f"{number:.0f} {units[0]}"


def made_folders(
    changes: Sequence[PathChange], is_protected: IsProtected, source: SourceOf
) -> Iterator[MadeFolder]:
    """Yield the outermost new folders with enough files."""
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
        kept = [change for change in inside if not folder.needs_row(change)]
        if len(kept) >= FOLDED_FROM:
            yield MadeFolder(tops[key], kept)


def _highest(change: PathChange, tops: Container[PathKey]) -> PathKey | None:
    """Return the outermost folder of ``tops`` that contains a path."""
    ways = ((change.zone, change.parts[:depth]) for depth in range(len(change.parts)))
    return next((way for way in ways if way in tops), None)


def _is_new_folder(change: PathChange) -> bool:
    return change.before is None and change.after is not None and change.after.kind == "folder"


class _Inside(Struct, frozen=True):
    """The condition for changes to be part of a folder's line."""

    folder: PathChange
    shared: set[tuple[str, int]]
    """Files on disk that also have a name outside of the folder."""
    is_protected: IsProtected
    source: SourceOf

    def needs_row(self, change: PathChange) -> bool:
        """Return True if a change needs its own row, because it is more than a new file."""
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
    """Return True unless a link is sure to lead to a path in a folder."""
    parts = Path(target).parts
    climbs = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
    if ".." in parts[climbs:]:  # after a link, ".." is not the folder that it appears to be
        return True
    return not Path(os.path.normpath(change.path.parent / target)).is_relative_to(folder)


def _has_more_rights(change: PathChange) -> bool:
    """Return True if a mode exceeds the umask, or is setuid or setgid."""
    after, applied = change.after, without_set_id(change).after
    if after is None or applied is None or after.mode != applied.mode:
        return True
    # A folder inherits the setgid bit of the folder around it.
    inherited = 0o2000 if after.kind == "folder" else 0
    return bool(after.mode & ~new_mode("folder") & ~inherited)


@cache
def new_mode(kind: str) -> int:
    """Return the mode of a new file or folder under the umask, which commands inherit."""
    mask = 0o022
    # os.umask returns the mask only while it sets another one, for all threads.
    with open("/proc/self/status") as facts:
        for line in facts:
            if line.startswith("Umask:"):
                mask = int(line.split()[1], 8)
    return (0o777 if kind == "folder" else 0o666) & ~mask


def paths_of(folders: Iterable[MadeFolder]) -> set[PathKey]:
    """Return the paths that share the lines of folders."""
    found: set[PathKey] = set()
    for folder in folders:
        found.update(change.key for change in folder.inside)
    return found
