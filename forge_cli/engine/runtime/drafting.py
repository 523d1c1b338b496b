"""Drafts and their workers: the zones of a draft, its changes, and how they are applied."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from forge_cli.core.errors import ForgeError
from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.runtime.loaded import LoadedFinder
from forge_cli.engine.runtime.prepared import PreparedWorker
from forge_cli.files.home import user_home
from forge_cli.files.worker import Worker, load_worker
from forge_cli.record.changes import ChangeLog
from forge_cli.record.places import session_file
from forge_cli.sandbox.changes.apply import finish_interrupted
from forge_cli.sandbox.drafts.changes import ChangedDraft, DraftChange, apply_draft, read_draft
from forge_cli.sandbox.drafts.draft import SessionDraft
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
    return read_draft(draft, loaded_among(draft), existed_before(draft))


def existed_before(draft: SessionDraft) -> frozenset[str]:
    """Return the files that existed before the session wrote to them.

    They are known from the copies that the session keeps for ``forge undo``.
    """
    if draft.existed or not draft.session:
        return frozenset(draft.existed)
    log = ChangeLog(session_file(draft.session))
    return frozenset(str(entry.path) for entry in log.entries() if entry.before is not None)


def apply_changes_of(changed: ChangedDraft, chosen: list[DraftChange]) -> SessionDraft:
    """Apply changes so that ``forge undo`` can restore the files as they were before."""
    keep = None
    draft = changed.draft
    if draft.session and (path := session_file(draft.session)).exists():
        log = ChangeLog(path)
        if not draft.applied:
            existed = tuple(sorted(existed_before(draft)))
            changed = replace(changed, draft=draft.become(draft.state, existed=existed))
            # These copies belong to the session's view; from here on it keeps those of real files.
            log.remove()
        keep = log.keep
    return apply_draft(changed, chosen, keep)


def describe_draft(changed: ChangedDraft) -> Mapping[str, Any]:
    """Return the draft as results and events contain it."""
    here = changed.draft.workspace.rstrip("/")
    return {
        "id": changed.draft.id,
        "state": changed.draft.state,
        "changes": [
            {
                "path": str(each.path).removeprefix(f"{here}/"),
                "change": _WORDS.get(each.change.what, "mode"),
                "bytes": each.change.after.size if each.change.after else 0,
            }
            for each in changed.changes
        ],
        "conflicts": [str(each.path).removeprefix(f"{here}/") for each in changed.conflicts],
    }
