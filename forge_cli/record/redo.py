"""Undo that can itself be undone once: it backs up the files that it changes.

A ``RedoLog`` beside the session log contains the same changes in reverse, and a redo undoes those.
It also contains the entries that the undo removed from the session's ``ChangeLog``. A redo puts
them back first, so it can be undone again by call and by turn. A mark shows whether an undo or a
redo was interrupted.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

from msgspec.structs import replace

from forge_cli.core.errors import ToolError, UsageError
from forge_cli.core.sandbox import READ_MAX
from forge_cli.files.home import make_private
from forge_cli.files.regular import read_regular, sync_data
from forge_cli.files.replace import replace_file, sweep_folder
from forge_cli.record.changes import (
    COMMANDS_MAX,
    REDO_SUFFIX,
    ChangedFile,
    ChangeLog,
    dump_entry,
    read_entries,
)
from forge_cli.record.moved import Whereabouts
from forge_cli.record.restoring import hold_changed_file, state_now
from forge_cli.record.undo import Confirm, Undoing, plan_undo, undo_changes
from forge_cli.sandbox.files.held import HeldFile

_MARK, _UNDONE = "begun", "undone.jsonl"
Step = Literal["undo", "redo"]


@dataclass
class RedoLog(ChangeLog):
    """Backups of the files that an undo changes."""

    changed_since: ClassVar[str] = "undo"

    @cached_property
    def folder(self) -> Path:
        return self.log.with_suffix(REDO_SUFFIX)

    @property
    def begun(self) -> Step | None:
        """The step that was interrupted, or None."""
        with suppress(FileNotFoundError, NotADirectoryError):
            is_redo = read_regular(self.folder / _MARK) == b"redo"
            return "redo" if is_redo else "undo"
        return None

    def mark(self, step: Step) -> None:
        replace_file(self.folder / _MARK, step, mode=0o600)

    def end(self) -> None:
        (self.folder / _MARK).unlink(missing_ok=True)

    def lost(self) -> list[ChangedFile]:
        """Return the files that a redo cannot restore: neither backed up nor moved."""
        changed = self.changed()
        elsewhere = {file.after for file in changed}
        found: list[ChangedFile] = []
        for file in changed:
            if file.unkept and file.before not in elsewhere and not self.has(file):
                found.append(file)
        return found

    def keep_undone(
        self,
        log: ChangeLog,
        plans: Sequence[Undoing],
        moved: Whereabouts,
        calls: Container[str | None] | None,
    ) -> None:
        """Back up everything that an undo is about to change.

        After an interrupted undo, the earlier backups stay and this one adds to them.
        """
        if self.begun is None:
            self.remove()
        self.mark("undo")
        sources = {each.file.path for each in moved.back.values()}
        found: dict[Path, ChangedFile] = {}
        for each in sorted(plans, key=lambda each: len(each.file.parts)):
            for folder in _folders_made(each.file):
                found.setdefault(folder.path, folder)
            if each.action != "nothing":
                found[each.file.path] = self._reverse(each, is_source=each.file.path in sources)
        passed = log.passing(calls)
        for passing in passed:
            for folder in _folders_made(passing):
                found.setdefault(folder.path, folder)
        known = self._load()
        new: list[ChangedFile] = []
        for entry in found.values():
            if not _is_known(known.get((entry.path, None)), entry):
                new.append(entry)
        paths = {passing.path for passing in passed}
        paths.update(each.file.path for each in plans)
        self._keep_entries(log, paths, calls)
        self._append(new)
        known.update({(entry.path, None): entry for entry in new})

    def _keep_entries(
        self, log: ChangeLog, paths: Container[Path], calls: Container[str | None] | None
    ) -> None:
        """Store these files' entries of the session's change log, with their backups."""
        earlier = read_entries(self.folder / _UNDONE)
        entries = {(entry.path, entry.call): entry for entry in earlier}
        for entry in log.entries(calls):
            if entry.path in paths:
                entries.setdefault((entry.path, entry.call), entry)
                log.share(entry, self.folder)
        replace_file(self.folder / _UNDONE, "".join(map(dump_entry, entries.values())), mode=0o600)

    def give_back(self, log: ChangeLog, plans: Iterable[Undoing]) -> None:
        """Return the entries of these files to the session's change log before a redo."""
        self.mark("redo")
        left = {entry.path for entry in self.changed()} - {each.file.path for each in plans}
        entries = [entry for entry in read_entries(self.folder / _UNDONE) if entry.path not in left]
        make_private(log.folder)
        # The content first: an entry without its content could not be undone.
        for entry in entries:
            self.share(entry, log.folder)
        log.put_back(entries)

    def settle(self, done: Iterable[Undoing]) -> None:
        """Forget the files that the undo did not change, and remove the mark."""
        left = [each.file.path for each in done if each.left]
        for entry in self.changed():
            with suppress(ToolError, OSError):
                if (
                    entry.after is None
                    and entry.before == ("directory", "")
                    and state_now(entry) == entry.before
                ):
                    left.append(entry.path)
        self.forget(left)
        self.end()

    def _reverse(self, undoing: Undoing, *, is_source: bool) -> ChangedFile:
        """Return the reverse of a change, with the present state as the earlier one."""
        file = undoing.file
        after_mode: int | None = None
        if undoing.now and file.before and file.before[0] != "link":
            after_mode = file.mode
        entry = ChangedFile(
            file.zone, file.parts, before=undoing.now, after=file.before, after_mode=after_mode
        )
        try:
            with hold_changed_file(file) as held:
                info = held.place.info
                if info is None or undoing.now is None:
                    return replace(entry, before=None, made=len(held.place.missing))
                entry = replace(entry, mode=info.st_mode & 0o7777, owner=(info.st_uid, info.st_gid))
                if undoing.now[0] != "file":
                    return entry
                entry = replace(entry, size=info.st_size)
                if undoing.now == file.before:  # only its mode changes
                    return entry
                return replace(entry, unkept=self._take(held, undoing.now[1], is_source=is_source))
        except ToolError:
            # There is nothing at the path yet, because the undo first restores a folder around it.
            if undoing.now is not None:
                raise
            return replace(entry, before=None)

    def _take(self, held: HeldFile, digest: str, *, is_source: bool) -> str | None:
        """Back up a file, by a hard link if possible; return the reason if that fails."""
        info = held.info()
        is_vast = info.size > READ_MAX
        target = self.folder / digest
        if is_vast:
            target = self._clone_of(held.place.real, digest)
        too_large = f"files of more than {READ_MAX >> 20} MB are not backed up"
        if is_source:  # the undo moves it, and a redo can move it again
            return too_large
        if target.exists() or _link(held, target):
            return None
        if is_vast and not self.can_clone(held):
            return too_large
        kept = self._size or 0
        if not is_vast and kept + info.size > COMMANDS_MAX:
            return f"{COMMANDS_MAX >> 20} MB of backups are the limit for an undo"
        try:
            with os.fdopen(held.open(), "rb") as content:
                replace_file(target, content, mode=0o600)
        except OSError as error:
            return f"it could not be backed up: {error.strerror}"
        self._size = kept + (0 if is_vast else info.size)
        return None


def undo_with_redo(
    log: ChangeLog, confirm: Confirm, calls: Container[str | None] | None = None
) -> tuple[list[Undoing], list[ChangedFile]]:
    """Undo the changes of the session, or of ``calls``, so that they can be redone.

    Return the results, and the files that a redo cannot restore.
    """
    kept = RedoLog(log.log)
    _sweep_folders(log.changed(calls))
    done = undo_changes(
        log, confirm, calls, before=lambda plans, moved: kept.keep_undone(log, plans, moved, calls)
    )
    _sweep_folders(each.file for each in done)
    if kept.begun:
        kept.settle(done)
        return done, kept.lost()
    return done, []


def plan_redo(log: ChangeLog) -> list[Undoing]:
    """Return the effect of a redo on each file that the last undo changed."""
    return plan_undo(_open_redo(log))


def redo_changes(log: ChangeLog, confirm: Confirm) -> list[Undoing]:
    """Redo the changes of the last undo of this session, except in files that changed since."""
    kept = _open_redo(log)
    _sweep_folders(kept.changed())
    done = undo_changes(kept, confirm, before=lambda plans, _: kept.give_back(log, plans))
    kept.end()
    _sweep_folders(each.file for each in done)
    return done


def _sweep_folders(files: Iterable[ChangedFile]) -> None:
    """Remove temporary files of a killed attempt, since their folders may have to be deleted."""
    for folder in {file.path.parent for file in files}:
        sweep_folder(folder)


def _open_redo(log: ChangeLog) -> RedoLog:
    kept = RedoLog(log.log)
    if kept.begun == "undo":
        raise UsageError(
            "the last undo was interrupted",
            hint=f"complete it first: forge undo {log.log.stem}",
        )
    return kept


def _folders_made(file: ChangedFile) -> Iterable[ChangedFile]:
    """Yield the folders that the session created for a file, the outermost first.

    Undoing deletes those that become empty.
    """
    if file.before is not None:
        return
    for count in range(min(file.made, len(file.parts) - 1), 0, -1):
        folder = ChangedFile(file.zone, file.parts[:-count], before=("directory", ""))
        with suppress(ToolError, OSError), hold_changed_file(folder) as held:
            info = held.place.info
            if info and held.kind == "directory":
                yield replace(folder, mode=info.st_mode & 0o7777, owner=(info.st_uid, info.st_gid))


def _is_known(earlier: ChangedFile | None, now: ChangedFile) -> bool:
    """Return True if an interrupted undo has already backed up this path."""
    return earlier is not None and now.before in (earlier.before, earlier.after, None)


def _link(held: HeldFile, target: Path) -> bool:
    """Add a hard link to a file that has no other.

    An undo replaces or deletes the file, but never writes to it.
    """
    place = held.place
    # A write through another name of the file would change the backup as well.
    if place.info is None or place.info.st_nlink != 1:
        return False
    try:
        os.link(place.name, target, src_dir_fd=place.folder, follow_symlinks=False)
        with open(target, "rb") as kept:
            sync_data(kept.fileno())
    except OSError:
        target.unlink(missing_ok=True)
        return False
    return True
