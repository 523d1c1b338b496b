"""Helps for the commands on drafts: how one is named, and the paths that a person means."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from forge_cli.core.errors import UsageError
from forge_cli.core.text import counted
from forge_cli.engine.runtime.drafting import changes_of
from forge_cli.sandbox.drafts.changes import ChangedDraft, DraftChange
from forge_cli.sandbox.drafts.draft import SessionDraft, find_draft
from forge_cli.toolsets.shell.shown import show_changes

NAMED = "by its id, a part of it, its session, or last"


def open_draft(name: str) -> ChangedDraft:
    """Return a draft with its changes; one whose session still works on it cannot be used."""
    draft = find_draft(name)
    draft.require_unused()
    return changes_of(draft)


def chosen_of(changed: ChangedDraft, paths: Sequence[Path]) -> list[DraftChange]:
    """Return the changes at these paths, from the working directory or from the draft's own; all without any."""
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
    """Return the rows of changes, and behind them the contents of files unless only a ``stat`` is wanted."""
    if not chosen:
        return "no changes"
    shown = show_changes(changed.change_set(chosen), Path(changed.draft.workspace))
    return shown.text.partition("\n\n")[0] if stat else shown.text


def notes_of(chosen: Sequence[DraftChange]) -> list[str]:
    """Return what a person has to know before they apply these."""
    protected = [each for each in chosen if each.protected]
    conflicts = [each for each in chosen if each.conflict]
    notes = [f"conflict: {each.path} {each.conflict}" for each in conflicts]
    notes += [f"by name only: {each.path} ({each.protected})" for each in protected]
    if chosen:
        notes.append(counted(len(chosen), "change"))
    return notes
