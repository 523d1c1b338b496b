"""Helpers for the commands on drafts: find a draft, select its changes, and show them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from forge_cli.core.errors import UsageError
from forge_cli.core.text import counted, visible
from forge_cli.engine.runtime.drafting import changes_of
from forge_cli.sandbox.drafts.changes import ChangedDraft, DraftChange
from forge_cli.sandbox.drafts.conflicts import merge_of
from forge_cli.sandbox.drafts.draft import SessionDraft, find_draft, load_draft
from forge_cli.toolsets.shell.contents import compare_bytes
from forge_cli.toolsets.shell.shown import name_from, show_changes

NAMED = "by its id, a part of it, its session, or last"


def open_draft(name: str) -> ChangedDraft:
    """Return a draft with its changes; raise a ForgeError if its session still runs."""
    draft = find_draft(name)
    draft.take()  # nothing may change between what is shown and what is applied
    return changes_of(load_draft(draft.place) or draft)  # as it is now that nobody else is in it


def chosen_of(changed: ChangedDraft, paths: Sequence[Path]) -> list[DraftChange]:
    """Return the changes at these paths, or without paths all that are not protected.

    A path is relative to the working directory or to the workspace of the draft.
    """
    if not changed.changes:
        raise UsageError(f"the draft {changed.draft.id} changed nothing")
    if not paths:
        return changed.taken_by_all()
    return changed.named(_real(changed.draft, path) for path in paths)


def _real(draft: SessionDraft, path: Path) -> Path:
    from_here = Path(os.path.abspath(path))
    inside = any(from_here.is_relative_to(zone.path) for zone in draft.zones)
    return from_here if inside else Path(draft.workspace, path)


def text_of(changed: ChangedDraft, chosen: Sequence[DraftChange], *, stat: bool = False) -> str:
    """Return a row for each change, followed by the contents of files unless ``stat`` is True."""
    if not chosen:
        return "no changes"
    shown = show_changes(changed.change_set(chosen), Path(changed.draft.workspace))
    if stat:
        # A blank line separates the rows from the contents.
        return shown.text.partition("\n\n")[0]
    return shown.text


def conflict_text(changed: ChangedDraft, each: DraftChange) -> str:
    """Return a file in conflict: both changes merged by git, or the reason why that is unknown."""
    name = name_from(each.path, Path(changed.draft.workspace))
    title = visible(f"conflict {name}: {each.conflict}")
    merge = merge_of(changed, each)
    if merge is None:
        return f"{title}; there is no known start to merge from, so one side has to be taken"
    if merge.overlaps:
        places = counted(merge.overlaps, "place")
        told = merge.content.decode(errors="replace")
        return f"{title}; both sides changed the same lines in {places}\n\n{told}"
    lines = compare_bytes(each.path.read_bytes(), merge.content, name, f"{name} (merged)")
    return "\n".join((f"{title}; both changes can be merged", "", *lines.difference))


def notes_of(chosen: Sequence[DraftChange]) -> list[str]:
    """Return notes on these changes: conflicts, protected paths, and at the end their number."""
    notes: list[str] = []
    for each in chosen:
        if each.conflict:
            notes.append(f"conflict: {each.path} {each.conflict}")
    for each in chosen:
        if each.protected:
            notes.append(f"by name only: {each.path} ({each.protected})")
    if chosen:
        notes.append(counted(len(chosen), "change"))
    return notes
