"""Conflicts of a draft with the real files, and the ways to settle them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from forge_cli.core.errors import ForgeError
from forge_cli.core.text import counted
from forge_cli.files.regular import read_regular
from forge_cli.sandbox.changes.apply import upper_folder
from forge_cli.sandbox.changes.path_changes import PathChange, is_opaque
from forge_cli.sandbox.drafts.changes import ChangedDraft, DraftChange
from forge_cli.sandbox.drafts.copies import accept_copies
from forge_cli.sandbox.drafts.merge import MAX_BYTES, Merge, merge_versions
from forge_cli.sandbox.names import shown


class ConflictChoice(StrEnum):
    """The fate of files that changed both in a draft and outside of it."""

    MERGE = "merge"
    """Both changes, if they do not overlap."""
    DRAFT = "draft"
    """The file of the draft; ``forge undo`` brings back the real one."""
    MINE = "mine"
    """The real file; the draft forgets its change."""
    LEAVE = "leave"
    """The file stays in conflict, and everything else is applied."""


def merge_of(changed: ChangedDraft, each: DraftChange) -> Merge | None:
    """Merge a file in conflict; None if there is no known base, or if it is no text file."""
    before, after = each.change.before, each.change.after
    if before is None or after is None or before.kind != "file" or after.kind != "file":
        return None
    if max(before.size, after.size) > MAX_BYTES:
        return None
    base = changed.base(each.change)
    if base is None:
        return None
    try:
        return merge_versions(
            base,
            read_regular(each.path),
            read_regular(changed.change_set().source(each.change, "after")),
        )
    except OSError:
        return None


def settle_conflicts(
    changed: ChangedDraft, conflicts: Sequence[DraftChange], choice: ConflictChoice
) -> None:
    """Settle conflicts in the draft, without a change of any real file; read the draft again then.

    Raise a ForgeError, with nothing changed, if one of the files cannot be settled in this way.
    """
    match choice:
        case ConflictChoice.LEAVE:
            return
        case ConflictChoice.DRAFT:
            accept(changed, conflicts)
        case ConflictChoice.MINE:
            for each in conflicts:
                _require_forgettable(changed, each)
            for each in conflicts:
                _forget(changed, each.change)
            accept(changed, conflicts)
        case ConflictChoice.MERGE:
            merged = [(each, _clean_merge(changed, each)) for each in conflicts]
            for each, content in merged:
                write_version(changed, each, content)
            accept(changed, conflicts)


def accept(changed: ChangedDraft, settled: Sequence[DraftChange]) -> None:
    """Record that the draft knows these real files, as they were when the draft was read."""
    for each in settled:
        changed.start.accept(each.change)
    changed.start.save(changed.draft.place)


def write_version(changed: ChangedDraft, each: DraftChange, content: bytes) -> None:
    """Write the file of a draft anew, in place: it keeps its mode, its owner and other names."""
    source = changed.change_set().source_name(each.change, "after")
    descriptor = os.open(source, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.truncate()


def _clean_merge(changed: ChangedDraft, each: DraftChange) -> bytes:
    """Return a merge without overlaps, or raise a ForgeError."""
    merge = merge_of(changed, each)
    name = shown(str(each.path))
    if merge is None:
        raise ForgeError(
            f"{name} cannot be merged: it is no text, or its content at the start is not known",
            hint="take one side: --conflict draft, or --conflict mine",
        )
    if merge.overlaps:
        places = counted(merge.overlaps, "place")
        raise ForgeError(
            f"{name} cannot be merged: both sides changed the same lines in {places}",
            hint="edit it by forge drafts review, or take one side: --conflict draft or mine",
        )
    return merge.content


def _require_forgettable(changed: ChangedDraft, each: DraftChange) -> None:
    """Raise a ForgeError for a change that cannot be taken out of a draft on its own."""
    entries = (each.change.before, each.change.after)
    upper = Path(changed.change_set().source_name(each.change, "after"))
    if any(entry and entry.kind == "folder" for entry in entries) or not upper.parent.is_dir():
        raise ForgeError(
            f"{shown(str(each.path))} is a folder, or in one that the draft removed",
            hint="--conflict leave keeps it in the draft and applies the rest",
        )


def _forget(changed: ChangedDraft, change: PathChange) -> None:
    """Take a change out of the draft: its view shows the real file again."""
    upper = Path(changed.change_set().source_name(change, "after"))
    # A deleted file has a mark there, unless a folder around it hides everything below.
    with suppress(FileNotFoundError):
        upper.unlink()
    root = upper_folder(changed.draft.place, change.zone)
    is_hidden = any(is_opaque(folder) for folder in upper.parents if folder.is_relative_to(root))
    is_copy = bool(changed.draft.why_copied)
    if change.before is not None and (is_hidden or is_copy):
        shutil.copy2(change.path, upper, follow_symlinks=False)
        info = change.path.lstat()
        with suppress(PermissionError):
            os.chown(upper, info.st_uid, info.st_gid, follow_symlinks=False)
    if is_copy:
        accept_copies(changed.draft, [change])
