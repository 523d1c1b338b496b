"""Drafts and their workers: the zones of a draft, its changes, and how they are applied."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from forge_cli.core.errors import ForgeError
from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.runtime.loaded import LoadedFinder
from forge_cli.engine.runtime.prepared import PreparedWorker
from forge_cli.files.home import user_home
from forge_cli.files.worker import Worker, load_worker
from forge_cli.record.changes import ChangedFile, ChangeLog
from forge_cli.record.places import session_file
from forge_cli.sandbox.changes.apply import finish_interrupted
from forge_cli.sandbox.changes.path_changes import PathChange
from forge_cli.sandbox.drafts.changes import ChangedDraft, DraftChange, apply_draft, read_draft
from forge_cli.sandbox.drafts.conflicts import ConflictChoice, settle_conflicts
from forge_cli.sandbox.drafts.draft import SessionDraft, backups_in
from forge_cli.sandbox.drafts.merge import staged_content
from forge_cli.sandbox.drafts.start import StartState
from forge_cli.sandbox.files.consent import OwnFiles
from forge_cli.sandbox.zones.declared import open_zones

_WORDS = {"made": "created", "changed": "changed", "replaced": "changed", "deleted": "deleted"}
"""The names of changes in events; any other change is one of the mode, times or attributes."""


def draft_zones(
    worker: Worker, host: PluginHost, workspace: Path, added: tuple[Zone, ...]
) -> Iterator[tuple[str, Path]]:
    """Yield the name and real folder of each zone that a draft covers.

    These are the writable zones of the worker and ``added``, without those of toolsets.
    """
    prepared = PreparedWorker(worker, host)
    zones = open_zones(
        prepared.sandbox, workspace=workspace, user_home=user_home(), file=str(worker.path)
    )
    for zone in (*zones, *added):
        if zone.mode is ZoneMode.RW:
            yield zone.name, Path(os.path.realpath(zone.path))


def draft_size(worker: Worker, host: PluginHost) -> int | None:
    """Return the most bytes that a draft of a worker may hold, if the worker limits it."""
    sandbox = PreparedWorker(worker, host).sandbox
    if sandbox is None or isinstance(sandbox.draft, bool):
        return None
    return sandbox.draft.size


def loaded_among(draft: SessionDraft) -> Callable[[list[Path]], dict[Path, str]]:
    """Return a function that finds the files that forge or its programs load, with the reason."""
    try:
        worker = load_worker(draft.worker_file)
    except ForgeError:  # the worker no longer exists; protected names still count
        return lambda paths: {}
    folder = PreparedWorker(worker, PluginHost(worker=worker)).within(Path(draft.workspace))
    zones = [Zone(zone.name, Path(zone.path), ZoneMode.RW) for zone in draft.zones]
    home = folder.prepared.home
    finder = LoadedFinder(worker, zones, folder.settings, workspace=folder.workspace, home=home)
    return OwnFiles(folder.prepared.protected, finder).why_changed


def changes_of(draft: SessionDraft) -> ChangedDraft:
    """Return the changes of a draft, with conflicts and files that must be accepted by name."""
    finish_interrupted(draft.place)
    return read_draft(draft, loaded_among(draft), _Originals(draft).content)


class _Originals:
    """Files as a draft found them: copies that its session keeps, or that git has."""

    def __init__(self, draft: SessionDraft) -> None:
        self._draft = draft

        self._log = ChangeLog(backups_in(draft.place))

    @cached_property
    def _kept(self) -> dict[Path, ChangedFile]:
        found: dict[Path, ChangedFile] = {}
        for entry in self._log.entries():
            found.setdefault(entry.path, entry)
        return found

    @cached_property
    def _start(self) -> StartState:
        return StartState.load(self._draft.place)

    def content(self, change: PathChange) -> bytes | None:
        """Return a file as the draft found it; None if no copy of it is known."""
        if not self._start.knows(change) or self._start.is_later(change):
            return None
        then = self._start.state_of(change)
        content = self._of_session(change)
        # A program that forge does not know may have written the file before the session did.
        if content is not None and then is not None and len(content) == then.size:
            return content
        staged = self._start.staged_at_start(self._draft.place, change)
        if staged is None:
            return None
        content = staged_content(change.path.parent, staged.object)
        # A filter of git may store other contents than the working file has.
        if content is None or len(content) != staged.size:
            return None
        return content

    def _of_session(self, change: PathChange) -> bytes | None:
        entry = self._kept.get(self._draft.seen_path(change.path))
        if entry is None or entry.before is None or entry.before[0] != "file":
            return None
        if not self._log.has(entry):
            return None
        with self._log.kept(entry, entry.before[1]) as data:
            return data if isinstance(data, bytes) else data.read()


def settle(
    changed: ChangedDraft, chosen: list[DraftChange], choice: ConflictChoice
) -> tuple[ChangedDraft, list[DraftChange]]:
    """Settle the conflicts among these changes; return the draft and what is to be applied."""
    settle_conflicts(changed, [each for each in chosen if each.conflict], choice)
    after = changes_of(changed.draft)
    keys = {each.change.key for each in chosen}
    left = [each for each in after.changes if each.change.key in keys]
    if choice is ConflictChoice.LEAVE:
        left = [each for each in left if not each.conflict]
    return after, left


def apply_changes_of(changed: ChangedDraft, chosen: list[DraftChange]) -> SessionDraft:
    """Apply changes so that ``forge undo`` can restore the files as they were before."""
    keep = None
    draft = changed.draft
    if draft.session and (path := session_file(draft.session)).exists():
        keep = ChangeLog(path).keep
    return apply_draft(changed, chosen, keep)


def describe_draft(
    changed: ChangedDraft, part: Sequence[DraftChange] | None = None
) -> Mapping[str, Any]:
    """Return the draft, or a part of its changes, as results and events contain it."""
    here = changed.draft.workspace.rstrip("/")
    changes = changed.changes if part is None else part
    return {
        "id": changed.draft.id,
        "state": changed.draft.state,
        "changes": [
            {
                "path": str(each.path).removeprefix(f"{here}/"),
                "change": _WORDS.get(each.change.what, "mode"),
                "bytes": each.change.after.size if each.change.after else 0,
            }
            for each in changes
        ],
        "conflicts": [str(each.path).removeprefix(f"{here}/") for each in changes if each.conflict],
    }
