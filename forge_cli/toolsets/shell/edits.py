"""Trials that only edited files, as the mode "accept edits" allows."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from forge_cli.core.approval import Approval, are_edits
from forge_cli.core.errors import ToolError
from forge_cli.core.zones import Access
from forge_cli.sandbox.changes.path_changes import Entry, PathChange, attributes_of, hash_of
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.trial.trials import TriedLine
from forge_cli.toolsets.shell.moved_files import moved_files
from forge_cli.toolsets.shell.program_links import harmless_links
from forge_cli.toolsets.shell.shown import ShownEffect, why_protected

MAX_CHANGES = 1000
"""Changes outside of new folders that need no review; a person looks at more."""
_MODES = stat.S_IRWXU | stat.S_IRWXG | stat.S_IROTH | stat.S_IXOTH
"""The bits that an ordinary mode may have: others cannot write."""

MadeBySession = Callable[[Path, str], bool]
"""Returns True if the session made the file with this hash."""


def only_edits(
    tried: TriedLine, shown: ShownEffect, sandbox: Sandbox, made: MadeBySession | None
) -> bool:
    """Return True if a trial only made, changed or moved ordinary files that may be edited.

    Deleted files are accepted only if they were moved, or made by the session.
    """
    changes = tried.changes.changes
    if (
        not tried.complete
        or shown.records
        or not changes
        or len(changes) - shown.behind > MAX_CHANGES
    ):
        return False
    links = harmless_links(changes, [zone.path for zone in sandbox.zones])
    if not all(change.key in links or _is_ordinary(change) for change in changes):
        return False
    if any(map(why_protected, changes)):
        return False
    # A hard link would let a later edit change a file in another place.
    if len(_files_made(changes)) < sum(_is_new_file(change) for change in changes):
        return False
    moved = moved_files(tried.changes, shown.moved)
    for change in changes:
        if change.after is None and not (
            _is_folder(change) or change.path in moved or _was_made(change, made)
        ):
            return False
    if any(_has_attributes(tried, change) for change in changes):
        return False
    return all(_may_edit(sandbox, change) for change in changes)


def _is_ordinary(change: PathChange) -> bool:
    """Return True for files and folders with ordinary modes and an unchanged owner."""
    entries = [entry for entry in (change.before, change.after) if entry]
    if {entry.kind for entry in entries} not in ({"file"}, {"folder"}) or not change.parts:
        return False
    if change.what == "linked" or (change.what == "mode" and _is_folder(change)):
        return False
    before, after = change.before, change.after
    if before and after and before.owner != after.owner:
        return False
    return after is None or _has_usual_mode(before, after)


def _has_usual_mode(before: Entry | None, after: Entry) -> bool:
    return after.mode | _MODES == _MODES or (before is not None and before.mode == after.mode)


def _is_folder(change: PathChange) -> bool:
    entry = change.after or change.before
    return entry is not None and entry.kind == "folder"


def _is_new_file(change: PathChange) -> bool:
    return change.before is None and not _is_folder(change)


def _files_made(changes: Iterable[PathChange]) -> set[tuple[str, int]]:
    """Return the new files on disk; fewer than new paths means that hard links were made."""
    files: set[tuple[str, int]] = set()
    for change in changes:
        if change.after and _is_new_file(change):
            files.add((change.zone, change.after.number))
    return files


def _was_made(change: PathChange, made: MadeBySession | None) -> bool:
    """Return True if the session made a file; False if that is unknown."""
    if change.before is None or made is None:
        return False
    try:
        return made(change.path, hash_of(change.path, change.before.size))
    except OSError:
        return False


def _has_attributes(tried: TriedLine, change: PathChange) -> bool:
    if change.after is None or change.what == "times":
        return False
    try:
        return any(True for _ in attributes_of(tried.changes.source(change, "after")))
    except OSError:
        return True


def _may_edit(sandbox: Sandbox, change: PathChange) -> bool:
    """Return True if the zone of a file allows edits, or only asks before edits."""
    if _is_folder(change) and change.before is not None:
        return True
    zone = next((zone for zone in sandbox.zones if str(zone.path) == change.zone), None)
    if zone is None:
        return False
    try:
        verdict = sandbox.judge("/".join(("", zone.name, *change.parts)), Access.WRITE)
    except (ToolError, UnicodeError):
        return False
    return verdict.approval is Approval.PRE_APPROVED or are_edits(verdict.grants)
