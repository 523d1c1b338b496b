"""Zones that few workers have: those of children, added folders, and accepted edits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from forge_cli.core.approval import Approval
from forge_cli.core.errors import UsageError, WorkerError
from forge_cli.core.zones import Zone
from forge_cli.files.home import user_home
from forge_cli.sandbox.zones.declared import UnmakeableZone, open_zone, require_distinct

if TYPE_CHECKING:
    from forge_cli.core.notify import Notify
    from forge_cli.files.settings import Settings
    from forge_cli.sandbox.drafts.link import DraftLink
    from forge_cli.sandbox.files.sandbox import Sandbox


def accepting_edits(zone: Zone, settings: Settings) -> Zone:
    """Return the zone, with writes pre-approved if the user's config lists its folder."""
    folders = (settings.policy.get("filesystem") or {}).get("edits")
    for index, folder in enumerate(folders if isinstance(folders, list) else ()):
        named = isinstance(folder, str) and zone.path.is_relative_to(Path(folder).expanduser())
        if named and not zone.write_stated and zone.approval.write is Approval.ASK:
            where = settings.where("policy", "filesystem", "edits", index)
            return replace(
                zone,
                approval=replace(zone.approval, write=Approval.PRE_APPROVED),
                write_where=where,
            )
    return zone


def allow_in_draft(zone: Zone, draft: DraftLink) -> Zone:
    """Return the zone, with changes pre-approved if a draft covers it, because a review follows.

    An approval that the worker states stays.
    """
    zone = replace(zone, path=draft.seen_path(zone.path))
    if str(zone.path) not in draft.zones:
        return zone
    free = Approval.PRE_APPROVED
    return replace(
        zone,
        drafted=True,
        approval=replace(
            zone.approval,
            write=zone.write if zone.write_stated else free,
            delete=zone.delete if zone.delete_stated else free,
        ),
    )


def add_zones(zones: tuple[Zone, ...], added: Sequence[Zone]) -> tuple[Zone, ...]:
    """Return the zones with the folders that a person adds."""
    for zone in added:
        try:
            zones = require_distinct((*zones, open_zone(zone, user_home=user_home())))
        except WorkerError as error:
            hint = "name another folder, or give its zone in the worker another name"
            raise UsageError(f"--add-dir {zone.path}: {error.message}", hint=hint) from None
    return zones


def open_brought(brought: Sequence[Zone], make: bool, notify: Notify) -> Iterator[Zone]:
    """Yield the opened zones of toolsets; leave out those that cannot be made."""
    for zone in brought:
        try:
            yield open_zone(zone, user_home=user_home(), make=make)
        except UnmakeableZone as error:
            if make:
                notify("warning", error.message)


def use_spare_folder(zone: Zone, spare: Path) -> Zone:
    """Return the zone, with an empty folder in place of a missing one."""
    if zone.made:
        return zone
    folder = spare / zone.name
    folder.mkdir(exist_ok=True)
    return replace(zone, path=folder, made=True, stands_for=zone.path)


def open_child_zone(zone: Zone, parent: Sandbox, make: bool) -> Zone:
    """Open a zone of a child worker, capped before and after its folder is resolved."""
    from forge_cli.sandbox.files.caps import cap_zone

    made = open_zone(cap_zone(zone, parent.zones), user_home=user_home(), make=make)
    # Again, because the folder may be a link to a place that the parent cannot use.
    return cap_zone(made, parent.zones)
