"""The effect of a trial as people see it before they answer; nothing else is applied."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from math import inf
from pathlib import Path
from time import monotonic
from typing import Literal

from msgspec import Struct

from forge_cli.core.approval import FoldedLine
from forge_cli.core.results import TRIAL_LIMIT, VALUE_LIMIT
from forge_cli.core.text import counted, visible
from forge_cli.core.trial import TriedChange
from forge_cli.sandbox.changes.apply import ChangeSet
from forge_cli.sandbox.changes.path_changes import (
    Entry,
    PathChange,
    PathKey,
    What,
    attributes_of,
    hash_of,
    without_set_id,
)
from forge_cli.sandbox.changes.walk import Side
from forge_cli.sandbox.protected import protected_among
from forge_cli.toolsets.shell.contents import (
    CHANGED_AT_MOST,
    MADE_AT_MOST,
    FileContents,
    compare_files,
)
from forge_cli.toolsets.shell.made_folders import MadeFolder, made_folders, new_mode, paths_of
from forge_cli.toolsets.shell.repository import repositories_in

SHOWN_AT_MOST = TRIAL_LIMIT - 100_000
"""Characters of all rows and differences; the output of the command has its own limit."""
UNFOLDED_AT_MOST = VALUE_LIMIT
"""Characters of the details of all folders: paths first, then contents."""
_CHANGES: Mapping[What, Literal["created", "changed", "deleted", "mode"]] = {
    "made": "created",
    "changed": "changed",
    "replaced": "changed",
    "deleted": "deleted",
    "mode": "mode",
    "times": "mode",
    "linked": "mode",
}
_WORDS: Mapping[What, str] = {"times": "touched", "linked": "linked"}
_ACL = "system.posix_acl_"


class ShownEffect(Struct, frozen=True):
    """The changes of a trial as they are shown; only these are applied."""

    text: str
    """A row for each change, followed by the differences of files."""
    changed: tuple[TriedChange, ...]
    """The changes for programs."""
    paths: frozenset[PathKey]
    """The paths that have a row, or belong to the line of a folder."""
    unseen: int
    """Files whose contents are not shown, because they are binary or large."""
    protected: int
    """Changes of protected names."""
    records: frozenset[PathKey]
    """Paths of git's own records, which share a row for each ref."""
    moved: frozenset[Path]
    """Deleted files for which a new file has the same contents."""
    fits: bool
    """False if existing files have more differences than can be shown."""
    folded: tuple[FoldedLine, ...] = ()
    """Lines of new folders, with their details."""
    behind: int = 0
    """The number of changes that have no row of their own because of these lines."""

    def of(self, changes: ChangeSet) -> ChangeSet:
        """Return only the changes that were shown."""
        return ChangeSet(
            changes.folder,
            tuple(change for change in changes.changes if change.key in self.paths),
            changes.roots,
        )

    @property
    def stamp(self) -> str:
        """The hash of the shown text."""
        return sha256(self.text.encode(errors="surrogateescape")).hexdigest()


def show_changes(changes: ChangeSet, workspace: Path, seconds: float = inf) -> ShownEffect:
    """Describe all changes: first those of existing files with their differences, then new files.

    After ``seconds``, no more files are compared, and the result does not fit.
    """
    return _Describer(changes, workspace, monotonic() + seconds).describe()


def why_protected(change: PathChange) -> str | None:
    """Return why a name or path is protected; None if it is not."""
    found = protected_among(change.parts)
    return found[1] if found else change.loaded


def name_from(path: Path, workspace: Path) -> str:
    """Return a path relative to the working directory, or the absolute path outside of it."""
    return _name_from(str(path), str(workspace))


def _name_from(path: str, workspace: str) -> str:
    if path == workspace:
        return "."
    return path.removeprefix(f"{workspace.rstrip('/')}/")


class _Row(Struct):
    """One change and its details."""

    change: PathChange
    contents: FileContents | None = None
    """None if no file has changed contents."""
    details: list[str] = []
    folder: MadeFolder | None = None
    """The new folder that this row summarizes."""


class _Describer:
    def __init__(self, changes: ChangeSet, workspace: Path, ends: float) -> None:
        self._changes = changes
        self._workspace = workspace
        self._ends = ends
        self._first: dict[tuple[str, int], PathChange] = {}
        """The first shown name of each file on disk."""
        self._left = SHOWN_AT_MOST
        self._fits = True
        self._unfolded_left = UNFOLDED_AT_MOST
        self._paths: set[PathKey] = set()
        self._records: set[PathKey] = set()
        self._moved: set[Path] = set()
        self._why = {change.key: why_protected(change) for change in changes.changes}

    def describe(self) -> ShownEffect:
        changes = sorted(self._changes.changes, key=self._place_of)
        found = repositories_in(self._changes)
        records: set[PathKey] = set()
        for each in found:
            records.update(change.key for change in each.records.values())
            self._records.update(change.key for change in each.kept)
        self._records |= records
        folders = self._folders([change for change in changes if change.key not in records])
        behind = paths_of(folders.values()) | records
        rows = [
            self._row(change, folders.get(change.key))
            for change in changes
            if change.key not in behind
        ]
        between: list[list[str]] = []
        for each in found:
            between += each.differences(self._left)
        size = sum(len("\n".join(difference)) + 1 for difference in between if difference)
        self._fits = self._fits and size <= self._left
        old = [row for row in rows if row.change.before]
        new = [row for row in rows if row.change.before is None]
        lines = [self._line(row) for row in old]
        for each in found:
            lines += each.rows(name_from(each.folder, self._workspace))
        self._paths |= records
        lines += [self._line(row) for row in new]
        for difference in (*_contents_of(old), *between, *_contents_of(new)):
            lines += ["", *difference]
        text = "\n".join(lines)
        return ShownEffect(
            text,
            changed=tuple(self._changes_for_programs(changes)),
            paths=frozenset(self._paths),
            unseen=sum(1 for row in rows if row.contents and not row.contents.shown)
            + sum(each.unseen for each in found),
            protected=sum(1 for row in rows if self._why_protected(row.change)),
            records=frozenset(self._records),
            moved=frozenset(self._moved),
            fits=self._fits and len(text) <= SHOWN_AT_MOST,
            folded=tuple(self._unfold(row) for row in rows if row.folder),
            behind=sum(len(folder.inside) + 1 for folder in folders.values()),
        )

    def _place_of(self, change: PathChange) -> tuple[bool, bool, str, tuple[str, ...]]:
        """Return the sort key of a row: existing paths first, then protected names."""
        return change.before is None, self._why[change.key] is None, change.zone, change.parts

    def _folders(self, changes: Sequence[PathChange]) -> Mapping[PathKey, MadeFolder]:
        """Return the new folders that are shown as one line."""

        def is_protected(change: PathChange) -> bool:
            return self._why[change.key] is not None

        found = made_folders(
            changes, is_protected, lambda change: self._changes.source(change, "after")
        )
        return {each.change.key: each for each in found}

    def _unfold(self, row: _Row) -> FoldedLine:
        """Return the line of a folder with the rows of its paths, and contents that fit."""
        inside = row.folder.inside if row.folder else ()
        lines: list[str] = []
        for number, change in enumerate(inside):
            details = list(self._details(change, None))
            if change.after and change.after.kind == "file":
                details.insert(0, counted(change.after.size, "byte"))
            line = self._line(_Row(change, None, details))
            self._unfolded_left -= len(line) + 1
            if self._unfolded_left < 0:
                lines.append(f"and {counted(len(inside) - number, 'more path')}")
                break
            lines.append(line)
        for change in inside:
            size = 0
            if change.after and change.after.kind == "file":
                size = change.after.size
            if not size or size > self._unfolded_left or monotonic() > self._ends:
                continue
            difference = self._compare(change).difference
            characters = sum(len(line) + 1 for line in difference)
            if difference and characters <= self._unfolded_left:
                self._unfolded_left -= characters
                lines += ["", *difference]
        return FoldedLine(self._line(row), "\n".join(lines))

    def _row(self, change: PathChange, folder: MadeFolder | None = None) -> _Row:
        row = _Row(change, self._contents(change), folder=folder)
        row.details = list(self._details(change, row.contents))
        if folder:
            row.details.insert(0, folder.size)
        return row

    def _contents(self, change: PathChange) -> FileContents | None:
        """Return the contents of a changed file, as far as they fit."""
        if change.what in ("mode", "times", "linked"):
            return None
        files = [entry for entry in (change.before, change.after) if entry and entry.kind == "file"]
        if not files:
            return None
        if not self._fits or monotonic() > self._ends:
            self._fits = False
            return FileContents("file", shown=False)
        found = self._compare(change)
        size = sum(len(line) + 1 for line in found.difference)
        if size <= self._left:
            self._left -= size
            return found
        # Of a new file the size is enough, but a change of an existing one must be visible.
        if len(files) > 1:
            self._fits = False
        return FileContents(found.kind, shown=False)

    def _compare(self, change: PathChange) -> FileContents:
        is_old = change.before is not None and change.before.kind == "file"
        is_new = change.after is not None and change.after.kind == "file"
        name = self._name_of(change)
        at_most = CHANGED_AT_MOST if self._why[change.key] else MADE_AT_MOST
        try:
            return compare_files(
                change.path if is_old else None,
                self._changes.source(change, "after") if is_new else None,
                name if is_old else "/dev/null",
                name if is_new else "/dev/null",
                at_most,
            )
        except OSError as error:
            return FileContents(f"cannot be read: {error.strerror}", shown=False)

    def _details(self, change: PathChange, contents: FileContents | None) -> Iterator[str]:
        """Yield the details that the row shows in brackets."""
        before, after = change.before, change.after
        if change.what == "replaced" and before and after:
            yield f"{_described(before)} before"
        entry = after or before
        if after and after.kind == "link":
            yield from self._link(change, before, after)
        elif after and after.kind == "pipe":
            yield "pipe"
        if entry and entry.kind == "file" and contents and (after or not contents.shown):
            yield counted(entry.size, "byte")
        if before and after and contents and not contents.shown and before.size != after.size:
            yield f"before {before.size:,}"
        if contents and contents.kind != "text":
            yield contents.kind
        if contents and not contents.shown:
            yield "not shown"
        yield from self._modes(change)
        if after and after.kind == "file":
            first = self._first.setdefault((change.zone, after.number), change)
            if first is not change:
                yield f"the same file as {self._name_of(first)}"
        if after and change.what in ("made", "changed", "replaced"):
            yield from self._attributes(change)

    def _link(self, change: PathChange, before: Entry | None, after: Entry) -> Iterator[str]:
        text = f"link to {after.detail}"
        if before and before.kind == "link":
            text += f", before to {before.detail}"
        target = os.path.normpath(change.path.parent / after.detail)
        if not Path(target).is_relative_to(change.zone):
            text += ", outside the zone"
        yield text

    def _modes(self, change: PathChange) -> Iterator[str]:
        """Yield changes of mode and owner, and unusual modes of new files."""
        before, after = change.before, change.after
        if after is None or after.kind == "link":
            return
        applied = without_set_id(change).after
        if before and before.kind == after.kind:
            if before.mode != after.mode:
                name = "" if change.what == "mode" else "mode "
                yield f"{name}{before.mode:o} to {after.mode:o}"
        # The setgid bit is inherited from the folder.
        elif after.mode & ~0o2000 != new_mode(after.kind):
            yield f"mode {after.mode:o}"
        if applied and applied.mode != after.mode:
            yield f"applied as {applied.mode:o}"
        if before and before.owner != after.owner:
            yield f"owner {before.owner[0]}:{before.owner[1]} to {after.owner[0]}:{after.owner[1]}"

    def _attributes(self, change: PathChange) -> Iterator[str]:
        """Yield the names of extended attributes that a file or folder gets."""
        try:
            names = sorted(attributes_of(self._changes.source(change, "after")))
        except OSError:
            return
        if names:
            known = ("ACL" if name.startswith(_ACL) else name for name in names)
            yield f"attributes {', '.join(known)}"

    def _line(self, row: _Row) -> str:
        """Return the row of a change, and count the change as shown."""
        change = row.change
        self._paths.add(change.key)
        if row.folder:
            self._paths |= paths_of([row.folder])
        line = f"{_WORDS.get(change.what, change.what):<8} {self._name(change)}"
        if row.details:
            line += f" ({', '.join(row.details)})"
        if why := self._why_protected(change):
            line += f" PROTECTED: {why}"
        return visible(line)

    def _why_protected(self, change: PathChange) -> str | None:
        return None if change.key in self._records else self._why[change.key]

    def _name_of(self, change: PathChange) -> str:
        return _name_from("/".join((change.zone.rstrip("/"), *change.parts)), str(self._workspace))

    def _name(self, change: PathChange) -> str:
        name = self._name_of(change)
        entry = change.after or change.before
        return f"{name}/" if entry and entry.kind == "folder" else name

    def _changes_for_programs(self, changes: Sequence[PathChange]) -> Iterator[TriedChange]:
        """Yield the changes for programs; a moved file names its old path."""
        gone: dict[str, list[PathChange]] = {}
        for change in changes:
            # Hashing is slow, so only files of equal size and mode are hashed.
            if change.after is None and (key := self._key(change, "before")):
                gone.setdefault(key, []).append(change)
        for change in changes:
            entry = change.after or change.before
            size = entry.size if entry else 0
            path = self._name_of(change)
            same: list[PathChange] = []
            if change.before is None:
                for each in gone.get(self._key(change, "after") or "", []):
                    if self._hash(each, "before") == self._hash(change, "after"):
                        same.append(each)
            mode = self._new_mode(change)
            if same:
                self._moved.add(same[0].path)
                yield TriedChange(path, "renamed", size, self._name_of(same[0]), mode)
            else:
                yield TriedChange(path, _CHANGES[change.what], size, mode=mode)

    def _new_mode(self, change: PathChange) -> str | None:
        after = without_set_id(change).after
        if after is None or not any(True for _ in self._modes(change)):
            return None
        return f"{after.mode:o}"

    def _key(self, change: PathChange, side: Side) -> str | None:
        """Return a key to find a moved file by; None for anything but a file with contents."""
        entry = change.before if side == "before" else change.after
        if entry is None or entry.kind != "file" or not entry.size:
            return None
        return f"{entry.size} {entry.mode:o}"

    def _hash(self, change: PathChange, side: Side) -> str | None:
        path = change.path if side == "before" else self._changes.source(change, "after")
        try:
            return hash_of(path, path.lstat().st_size)
        except OSError:
            return None


def _contents_of(rows: Iterable[_Row]) -> Iterator[Sequence[str]]:
    for row in rows:
        if row.contents and row.contents.difference:
            yield row.contents.difference


def _described(entry: Entry) -> str:
    return f"link to {entry.detail}" if entry.kind == "link" else entry.kind
