"""Changes of a draft: read from outside its view, compared with the real files, and applied."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from forge_cli.core.errors import ForgeError, Stale
from forge_cli.sandbox.changes.apply import ChangeSet, apply_changes
from forge_cli.sandbox.changes.path_changes import PathChange, UnknownChange, read_changes
from forge_cli.sandbox.drafts.draft import SessionDraft
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.protected import protected_among

_GIT_RECORDS = frozenset({"objects", "refs", "logs", "index", "HEAD", "ORIG_HEAD"})
"""Files below ``.git`` that record commits; its hooks and its config are commands that git runs."""
_GIT_NOTES = frozenset({"COMMIT_EDITMSG", "MERGE_MSG", "FETCH_HEAD", "packed-refs", "shallow"})


class DraftChange(Struct, frozen=True):
    """A path that a draft changed."""

    change: PathChange
    conflict: str | None = None
    """Why the real file is not as the draft found it."""
    protected: str | None = None
    """Why the path has to be named to be applied."""

    @property
    def path(self) -> Path:
        return self.change.path


class ChangedDraft(Struct, frozen=True):
    """A draft with everything that it changed, in the order of the paths."""

    draft: SessionDraft
    changes: tuple[DraftChange, ...]

    @property
    def conflicts(self) -> list[DraftChange]:
        return [each for each in self.changes if each.conflict]

    def change_set(self, chosen: Sequence[DraftChange] | None = None) -> ChangeSet:
        """Return the changes as a set that can be shown and applied."""
        wanted = self.changes if chosen is None else chosen
        return ChangeSet(
            self.draft.place, tuple(each.change for each in wanted), dict(self.draft.roots)
        )

    def taken_by_all(self) -> list[DraftChange]:
        """Return the changes that are applied if no path is named: all but the protected ones."""
        return [each for each in self.changes if each.protected is None]

    def named(self, paths: Iterable[Path]) -> list[DraftChange]:
        """Return the changes at these paths and below them, with the new folders that they need.

        Raise a ForgeError for a path at which nothing changed.
        """
        wanted: set[Path] = set()
        for path in paths:
            below = {each.path for each in self.changes if each.path.is_relative_to(path)}
            if not below:
                raise ForgeError(
                    f"the draft changed nothing at {shown(str(path))}",
                    hint=f"forge drafts show {self.draft.id} --stat lists what it changed",
                )
            wanted |= below
        made = {each.path for each in self.changes if _is_new_folder(each.change)}
        for path in list(wanted):
            wanted |= made.intersection(path.parents)
        return [each for each in self.changes if each.path in wanted]


def read_draft(
    draft: SessionDraft, own: Callable[[list[Path]], dict[Path, str]], existed: Container[str]
) -> ChangedDraft:
    """Read what a draft changed; this process must see the real files, not the view.

    ``own`` returns the real paths that forge, or a program that it starts, loads or obeys, and why.
    ``existed`` contains the files that existed before the session first wrote to them.
    """
    found: list[PathChange] = []
    for zone in draft.zones:
        upper = draft.upper(zone)
        if not upper.is_dir():
            continue
        try:
            found += read_changes(Path(zone.path), upper, scratch=False)
        except UnknownChange as error:
            raise ForgeError(f"the draft {draft.id} cannot be read: {error}") from None
    why = own([change.path for change in found])
    changes: list[DraftChange] = []
    for change in found:
        conflict = _conflict(draft, change, was_there=str(change.path) in existed)
        protected = why.get(change.path) or _protected(change)
        changes.append(DraftChange(change, conflict, protected))
    return ChangedDraft(draft, tuple(changes))


def apply_draft(
    changed: ChangedDraft,
    chosen: Sequence[DraftChange],
    keep: Callable[[ChangeSet], None] | None = None,
) -> SessionDraft:
    """Write these changes to the real files, all or none, and return the updated draft.

    ``keep`` receives the changes before they are made, for undo. Raise a ForgeError if one of
    them conflicts.
    """
    draft = changed.draft
    if conflicts := [each for each in chosen if each.conflict]:
        first = conflicts[0]
        more = f", and {len(conflicts) - 1} more" if len(conflicts) > 1 else ""
        raise ForgeError(
            f"{shown(str(first.path))} {first.conflict}{more}; nothing was applied",
            hint="name the paths to apply, or change the file in the draft and apply it then",
        )
    try:
        apply_changes(changed.change_set(chosen), keep)
    except Stale as error:
        raise ForgeError(f"{error}; nothing was applied") from None
    applied = dict(draft.applied)
    for each in chosen:
        # A deleted file has no change time.
        with suppress(OSError):
            applied[str(each.path)] = os.lstat(each.path).st_ctime_ns
    left = len(changed.changes) - len(chosen)
    return draft.become("ready" if left else "applied", applied=applied)


def _conflict(draft: SessionDraft, change: PathChange, *, was_there: bool) -> str | None:
    """Return how the real file changed since the draft began, or None if it did not."""
    before = change.before
    if before is None:
        return "was deleted since the draft began" if was_there else None
    if before.kind == "folder" and (change.after is None or change.after.kind == "folder"):
        return None  # a new file changes the folder's time, and files are compared on their own
    if change.after is not None and (before.kind, before.size, before.detail) == (
        change.after.kind,
        change.after.size,
        change.after.detail,
    ):
        return None  # an interrupted apply has written it, or both sides made the same change
    # No program can set the change time (ctime), so that a later change cannot be hidden.
    if before.changed >= draft.began and draft.applied.get(str(change.path)) != before.changed:
        return "was changed since the draft began"
    return None


def _is_new_folder(change: PathChange) -> bool:
    return change.before is None and change.after is not None and change.after.kind == "folder"


def _protected(change: PathChange) -> str | None:
    """Return why the name of a path is protected; records of git are not."""
    if ".git" in change.parts:
        inside = change.parts[change.parts.index(".git") + 1 :]
        if not inside or inside[0] in _GIT_RECORDS | _GIT_NOTES:
            return None
    found = protected_among(change.parts)
    return found[1] if found else change.loaded
