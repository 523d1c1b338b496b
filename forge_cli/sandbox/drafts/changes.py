"""Changes of a draft: read from outside its view, compared with the real files, and applied."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.errors import ForgeError, Stale
from forge_cli.files.home import make_private
from forge_cli.sandbox.changes.apply import PARTS, ChangeSet, apply_changes
from forge_cli.sandbox.changes.path_changes import (
    PathChange,
    PathKey,
    UnknownChange,
    attributes_of,
    entry_of,
    hash_of,
    read_changes,
)
from forge_cli.sandbox.drafts.copies import accept_copies, changes_of_copy
from forge_cli.sandbox.drafts.draft import SessionDraft
from forge_cli.sandbox.drafts.start import PathState, StartState, record_start
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.protected import protected_among

_GIT_RECORDS = frozenset({"objects", "refs", "logs", "index", "HEAD", "ORIG_HEAD"})
"""Files below ``.git`` that record commits; its hooks and its config are commands that git runs."""
_GIT_NOTES = frozenset({"COMMIT_EDITMSG", "MERGE_MSG", "FETCH_HEAD", "packed-refs", "shallow"})
_GIT_ALTERNATES = frozenset({"alternates", "http-alternates"})
"""Files in ``.git/objects/info`` that name other places from which git reads objects."""
Base = Callable[[PathChange], bytes | None]
"""Returns a file as the draft found it; None if no copy of it is known."""


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
    start: StartState
    base: Base

    @property
    def conflicts(self) -> list[DraftChange]:
        return [each for each in self.changes if each.conflict]

    def change_set(self, chosen: Sequence[DraftChange] | None = None) -> ChangeSet:
        """Return the changes as a set that can be shown and applied."""
        wanted = self.changes if chosen is None else chosen
        return ChangeSet(
            self.draft.place,
            tuple(each.change for each in wanted),
            dict(self.draft.roots),
            moves=not self.draft.why_copied,
        )

    def taken_by_all(self) -> list[DraftChange]:
        """Return the changes that are applied if no path is named: all but the protected ones.

        A new folder in which everything is protected is left out, too.
        """
        free: set[PathKey] = set()
        guarded: set[PathKey] = set()
        for each in self.changes:
            if each.protected is not None:
                guarded.update(folders_of(each.change))
            elif not _is_new_folder(each.change):
                free.update(folders_of(each.change))
        return [
            each
            for each in self.changes
            if each.protected is None
            and (each.change.key in free or each.change.key not in guarded)
        ]

    def named(self, paths: Iterable[Path]) -> list[DraftChange]:
        """Return the changes at these paths and below them, with the new folders that they need.

        Raise a ForgeError for a path at which nothing changed.
        """
        given = {str(path) for path in paths}
        used: set[str] = set()
        needed: set[PathKey] = set()
        for each in self.changes:
            around = given.intersection(_places_around(each.change))
            if around:
                used |= around
                needed.add(each.change.key)
                needed.update(folders_of(each.change))
        if given - used:
            raise ForgeError(
                f"the draft changed nothing at {shown(min(given - used))}",
                hint=f"forge drafts show {self.draft.id} --stat lists what it changed",
            )
        found: list[DraftChange] = []
        for each in self.changes:
            is_chosen = not given.isdisjoint(_places_around(each.change))
            if is_chosen or (_is_new_folder(each.change) and each.change.key in needed):
                found.append(each)
        return found

    def new_folders(self) -> dict[PathKey, DraftChange]:
        """Return the folders that are made, or take the place of something else."""
        return {each.change.key: each for each in self.changes if _becomes_folder(each.change)}

    def part_of(self, each: DraftChange, content: bytes, *, takes_mode: bool) -> DraftChange:
        """Return a part of the change of a file: this content, with the new mode or the old one."""
        before, after = each.change.before, each.change.after
        if before is None or after is None:
            raise ValueError("only a changed file has parts")
        taken = replace(each.change, partial=True)
        file = self.change_set().source(taken, "after")
        make_private(file.parent)
        file.write_bytes(content)
        # The part replaces the file, so that it needs the attributes of the file.
        for name, value in attributes_of(each.path).items():
            with suppress(OSError):
                os.setxattr(file, name, value)
        attributes = after if takes_mode else before
        entry = replace(entry_of(file, file.lstat()), mode=attributes.mode, owner=attributes.owner)
        if entry.detail == (before.detail or hash_of(each.path, before.size)):
            entry = replace(entry, modified=before.modified)  # only the mode is taken
        return replace(each, change=replace(taken, after=entry))


def read_draft(
    draft: SessionDraft,
    own: Callable[[list[Path]], dict[Path, str]] | None = None,
    base: Base | None = None,
) -> ChangedDraft:
    """Read what a draft changed; this process must see the real files, not the view.

    ``own`` returns the real paths that forge, or a program that it starts, loads or obeys, and why.
    """
    start = StartState.load(draft.place)
    base = base or _no_base
    found: list[PathChange] = []
    for zone in draft.zones:
        upper = draft.upper(zone)
        # The copy of an outer zone has the inner zones in it.
        if not upper.is_dir() or (zone.copy and not upper.is_symlink()):
            continue
        try:
            if zone.copy:
                found += changes_of_copy(draft, zone)
            else:
                found += read_changes(Path(zone.path), upper, scratch=False)
        except UnknownChange as error:
            raise ForgeError(f"the draft {draft.id} cannot be read: {error}") from None
    why = own([change.path for change in found]) if own else {}
    conflicts = _conflicts(draft, found, start, base)
    changes: list[DraftChange] = []
    for change in found:
        protected = _protected(change)
        if protected is None and why:
            protected = why.get(change.path)
        changes.append(DraftChange(change, conflicts.get(change.key), protected))
    return ChangedDraft(draft, tuple(changes), start, base)


def renew_start(draft: SessionDraft) -> None:
    """Record the real files again for a session that goes on in a draft.

    Paths that the draft has changed keep their earlier states.
    """
    if draft.why_copied:
        return  # a copy does not show what changed since
    earlier = StartState.load(draft.place)
    now = record_start(draft.place, draft.roots)
    for each in read_draft(draft).changes:
        now.keep_state(earlier, each.change)
    now.save(draft.place)


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
            hint="name other paths, or say what becomes of it: --conflict merge|draft|mine|leave",
        )
    try:
        apply_changes(changed.change_set(chosen), keep)
    except Stale as error:
        raise ForgeError(f"{error}; nothing was applied") from None
    # The rest of a file that was applied in part stays in the draft.
    left = len(changed.changes) - sum(not each.change.partial for each in chosen)
    shutil.rmtree(draft.place / PARTS, ignore_errors=True)
    if left:
        # What this draft has written is not a change of others.
        changed.start.record(each.change for each in chosen)
        changed.start.save(draft.place)
        if draft.why_copied:
            accept_copies(draft, [each.change for each in chosen if not each.change.partial])
    return draft.become("ready" if left else "applied")


def folders_of(change: PathChange) -> list[PathKey]:
    """Return the keys of the folders around a path, up to its zone."""
    return [(change.zone, change.parts[:depth]) for depth in range(len(change.parts))]


def _no_base(change: PathChange) -> bytes | None:
    return None


def _places_around(change: PathChange) -> list[str]:
    """Return the path of a change, and those of the folders around it up to its zone."""
    places = [change.zone]
    for name in change.parts:
        places.append(f"{places[-1].rstrip('/')}/{name}")
    return places


def _conflicts(
    draft: SessionDraft, changes: Sequence[PathChange], start: StartState, base: Base
) -> dict[PathKey, str]:
    """Return the reason of each change whose real file is not as the draft found it."""
    found: dict[PathKey, str] = {}
    missing: set[PathKey] = set()
    removed: set[PathKey] = set()
    for change in changes:
        why = _conflict(draft, change, start, base)
        if why is None and not missing.isdisjoint(folders_of(change)):
            why = "is in a folder that was deleted or replaced since the draft began"
        if why is not None:
            found[change.key] = why
            if change.before is None or change.before.kind != "folder":
                missing.add(change.key)
        if change.before and change.before.kind == "folder" and not _is_folder_after(change):
            removed.add(change.key)
    # A folder cannot be removed without the files in it.
    for key in list(found):
        for depth in range(len(key[1])):
            folder = key[0], key[1][:depth]
            if folder in removed:
                found.setdefault(folder, "contains files that were changed since the draft began")
    return found


def _conflict(draft: SessionDraft, change: PathChange, start: StartState, base: Base) -> str | None:
    """Return how the real file changed since the draft began, or None if it did not."""
    before = change.before
    after = change.after
    is_folder = before is not None and before.kind == "folder"
    if before is not None and after is not None and not is_folder:
        same = (before.kind, before.mode, before.size, before.detail)
        if same == (after.kind, after.mode, after.size, after.detail):
            return None  # an interrupted apply has written it, or both sides made the same change
    if not start.knows(change):
        # Making a file in a folder changes the time of the folder, too.
        is_late = before is not None and before.changed >= draft.began and not is_folder
        return "was changed since the draft began" if is_late else None
    then = start.state_of(change)
    if before is None:
        return None if then is None else "was deleted since the draft began"
    if then is None:
        return "was made since the draft began"
    if then.is_at(before) or _has_content(change, then, base):
        return None
    if then.is_folder and is_folder and then.inode == before.number:
        return "was changed since the draft began"
    if then.is_folder or is_folder:
        return "was replaced since the draft began"
    return "was changed since the draft began"


def _has_content(change: PathChange, then: PathState, base: Base) -> bool:
    """Return True if the real file has the content and mode of the start, whatever its times."""
    before = change.before
    if before is None or before.kind != "file" or not stat.S_ISREG(then.mode):
        return False
    if (before.mode, before.size) != (stat.S_IMODE(then.mode), then.size):
        return False
    content = base(change)
    if content is None:
        return False
    now = before.detail or hash_of(change.path, before.size)
    return sha256(content).hexdigest() == now


def _is_folder_after(change: PathChange) -> bool:
    return change.after is not None and change.after.kind == "folder"


def _is_new_folder(change: PathChange) -> bool:
    return change.before is None and _is_folder_after(change)


def _becomes_folder(change: PathChange) -> bool:
    """Return True for a new folder, or one that replaces something else."""
    was_folder = change.before is not None and change.before.kind == "folder"
    return _is_folder_after(change) and not was_folder


def _protected(change: PathChange) -> str | None:
    """Return why the name of a path is protected; records of git are not."""
    if ".git" in change.parts:
        inside = change.parts[change.parts.index(".git") + 1 :]
        leads_out = inside[:2] == ("objects", "info") and inside[-1] in _GIT_ALTERNATES
        if not leads_out and (not inside or inside[0] in _GIT_RECORDS | _GIT_NOTES):
            return None
    found = protected_among(change.parts)
    return found[1] if found else change.loaded
