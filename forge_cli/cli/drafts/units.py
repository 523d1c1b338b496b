"""Steps of a review: changes to decide on together, and how they are shown."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.sandbox.changes.path_changes import PathKey
from forge_cli.sandbox.drafts.changes import ChangedDraft, DraftChange, folders_of
from forge_cli.toolsets.shell.contents import MADE_AT_MOST, compare_files
from forge_cli.toolsets.shell.shown import show_changes


class ShownUnit(Struct, frozen=True):
    """One step of a review: what it shows, and what can be done with it."""

    changes: Sequence[DraftChange]
    rows: Sequence[str]
    """A line for each path, or for each ref and staged file of git."""
    difference: str
    """The contents as unified diffs; empty if there are none."""
    folders: Sequence[DraftChange] = ()
    """The new folders around them, which are applied as well."""
    unseen: str | None = None
    """Why the changes cannot be taken in a review."""
    is_text: bool = False
    """True for a single text file, which can be edited."""
    hunks: int = 0
    """The number of hunks of a changed text file."""

    @property
    def applied(self) -> Sequence[DraftChange]:
        """Everything that is applied if the step is taken."""
        return (*self.folders, *self.changes)

    @property
    def has_mode(self) -> bool:
        """True for a changed file that also gets another mode or owner."""
        change = self.changes[0].change
        before, after = change.before, change.after
        return (
            before is not None
            and after is not None
            and (before.mode, before.owner) != (after.mode, after.owner)
        )

    @property
    def has_parts(self) -> bool:
        """True if a part of the change can be taken."""
        return self.hunks > 0 and self.hunks + self.has_mode > 1

    @property
    def is_conflict(self) -> bool:
        """True for a single path that can be taken although it changed on both sides."""
        is_single = len(self.changes) == 1 and bool(self.changes[0].conflict)
        return is_single and self.unseen is None and not any(each.conflict for each in self.folders)

    @property
    def can_be_taken(self) -> bool:
        return self.unseen is None and not any(each.conflict for each in self.applied)

    @property
    def belongs_to_rest(self) -> bool:
        """True if it may be taken without being named."""
        return self.can_be_taken and not any(each.protected for each in self.applied)


def units_of(changed: ChangedDraft) -> Iterator[list[DraftChange]]:
    """Yield changes to decide on together: the records of git, then each other path.

    A folder is deleted or replaced together with its contents. A new folder is shown with its
    files, and is a step of its own only if it is empty.
    """
    records = [each for each in changed.changes if _is_record(each)]
    if records:
        yield records
    done: set[Path] = set()
    around: set[Path] = set()
    for each in changed.changes:
        around.update(each.path.parents)
    # The changes are in the order of the paths, so that a folder comes before its contents.
    for each in changed.changes:
        if _is_record(each) or each.path in done:
            continue
        before, after = each.change.before, each.change.after
        if before and before.kind == "folder" and not (after and after.kind == "folder"):
            unit = [other for other in changed.changes if other.path.is_relative_to(each.path)]
            done.update(other.path for other in unit)
            yield unit
        elif each.path not in around or (before and before.kind == "folder"):
            yield [each]


def folders_around(
    new_folders: Mapping[PathKey, DraftChange], unit: Iterable[DraftChange]
) -> list[DraftChange]:
    """Return the new folders without which these changes cannot be applied, outer ones first."""
    own = {each.change.key for each in unit}
    needed: dict[PathKey, None] = {}
    for each in unit:
        needed.update(dict.fromkeys(folders_of(each.change)))
    return [new_folders[key] for key in needed if key in new_folders and key not in own]


def show_unit(
    changed: ChangedDraft,
    unit: Sequence[DraftChange],
    folders: Sequence[DraftChange],
    shown: Container[Path],
) -> ShownUnit:
    """Return a unit as it is shown, with the new folders around it that were not ``shown`` yet."""
    workspace = Path(changed.draft.workspace)
    rows: list[str] = []
    for folder in folders:
        if folder.path not in shown:
            rows += show_changes(changed.change_set([folder]), workspace).text.splitlines()
    found = show_changes(changed.change_set(unit), workspace)
    # A blank line separates the rows from the contents.
    own_rows, _, difference = found.text.partition("\n\n")
    rows += own_rows.splitlines()
    unseen = None
    if not found.fits or any(each.change.key not in found.paths for each in unit):
        unseen = "there is more than a review can show"
    result = ShownUnit(unit, rows, difference, folders, unseen)
    if len(unit) > 1:
        return result
    return _with_contents(changed, result, is_seen=not found.unseen)


def _with_contents(changed: ChangedDraft, shown: ShownUnit, *, is_seen: bool) -> ShownUnit:
    """Return a unit of one path with what is known of its contents."""
    change = shown.changes[0].change
    before, after = change.before, change.after
    if after is None or after.kind != "file":
        return shown
    source = changed.change_set(shown.changes).source(change, "after")
    old = change.path if before is not None and before.kind == "file" else None
    if not shown.difference or not is_seen:
        return _without_difference(shown, old, source)
    is_text = not any(_is_utf_16(path) for path in (old, source) if path)
    hunks = 0
    is_small = before is not None and max(before.size, after.size) <= MADE_AT_MOST
    if old and is_text and is_small:
        # A line of a file begins with a blank or a sign here.
        hunks = shown.difference.count("\n@@ ")
    return replace(shown, is_text=is_text, hunks=hunks)


def _without_difference(shown: ShownUnit, old: Path | None, source: Path) -> ShownUnit:
    """Return a unit whose contents are not shown: only binary files are taken by size and kind."""
    change = shown.changes[0].change
    if change.what not in ("made", "changed", "replaced"):
        return shown
    try:
        kind = compare_files(old, source, "", "").kind
    except OSError as error:
        return replace(shown, unseen=f"it cannot be read: {error.strerror}")
    is_text = "text" in kind and "was" not in kind
    is_empty = change.after is not None and not change.after.size
    if is_text and not is_empty:
        return replace(shown, unseen="the difference is too large to be shown", is_text=True)
    return replace(shown, is_text=is_text)


def _is_utf_16(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) in (b"\xff\xfe", b"\xfe\xff")


def _is_record(each: DraftChange) -> bool:
    # Hooks and settings of git are protected, and so decided on one by one.
    return ".git" in each.change.parts and each.protected is None
