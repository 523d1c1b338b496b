"""Caps on child workers: a child touches nothing that its parent could not touch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import copy
from pathlib import Path

from msgspec.structs import replace

from forge_cli.core.approval import Approval
from forge_cli.core.errors import ToolError, WorkerError
from forge_cli.core.zones import Access, Zone, ZoneApproval, ZoneMode
from forge_cli.sandbox.files.consent import OwnFiles
from forge_cli.sandbox.files.operations import FileOperations
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.files.virtual import innermost_zone, virtual_path
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.zones.zones import Isolation, IsolationLevel


def cap_zone(zone: Zone, parent_zones: Sequence[Zone]) -> Zone:
    """Return the zone, limited to what is allowed by all zones of the parent that it overlaps."""
    around = innermost_zone(zone.path, parent_zones)
    if around is None:
        known = ", ".join(f"/{outer.name} is {shown(str(outer.path))}" for outer in parent_zones)
        place = shown(str(zone.path))
        problem = f"zone '{zone.name}': {place} is outside the zones of the parent worker"
        raise WorkerError(zone.where, problem, hint=known or "the parent worker has no zones")
    # A zone that contains zones of the parent must not allow more than those do.
    inside = [
        outer
        for outer in parent_zones
        if outer.path.is_relative_to(zone.path) and outer.path != zone.path
    ]
    limits = [zone, around, *inside]
    write = Approval.strictest(*(one.write for one in limits))
    delete = Approval.strictest(*(one.delete for one in limits))
    writes = [one for one in limits if one.write is write]
    deletes = [one for one in limits if one.delete is delete]
    mode = zone.mode
    if any(one.mode is ZoneMode.RO for one in limits):
        mode = ZoneMode.RO
    return replace(
        zone,
        mode=mode,
        approval=ZoneApproval(write=write, delete=delete),
        write_where=writes[0].write_where,
        write_stated=any(one.write_stated for one in writes),
        delete_where=deletes[0].delete_where,
    )


def lies_within(folder: Path, zones: Sequence[Zone]) -> bool:
    """Return True if a folder is in one of the zones."""
    return innermost_zone(Path(os.path.realpath(folder)), zones) is not None


def cap_isolation(wanted: Isolation, parent: Isolation) -> Isolation:
    """Return the stricter of both levels and limits, with the network and paths that both allow."""
    from forge_cli.sandbox.network.rules import narrowest_network

    level = max(
        wanted.level,
        parent.level,
        key=(IsolationLevel.OFF, IsolationLevel.AUTO, IsolationLevel.REQUIRED).index,
    )
    read = [
        path for path in wanted.read if any(path.is_relative_to(other) for other in parent.read)
    ]
    # A parent that is not confined reads everything, so that its list limits nothing.
    if parent.level is IsolationLevel.OFF:
        read = list(wanted.read)
    reached = narrowest_network(wanted.network, parent.network)
    limits = wanted.limits & parent.limits
    where = parent.network_where if wanted.network is True else wanted.network_where
    return replace(
        wanted,
        level=level,
        network=reached,
        read=tuple(read),
        stated_limits=limits,
        network_where=where,
    )


def seen_from(sandbox: Sandbox, other: Sandbox, path: str) -> str | None:
    """Return the virtual path in one sandbox of a ``path`` in another; None if no zone has it."""
    try:
        named = other.parse(path)
    except ToolError:
        return None
    if named.base is None:
        return None
    return name_in(sandbox, named.base.joinpath(*named.parts))


def name_in(sandbox: FileOperations, real: Path) -> str | None:
    """Return the virtual path of a file on the host, or None if no zone has it."""
    zone = innermost_zone(real, sandbox.zones)
    if zone is None:
        return None
    return virtual_path(zone, real.relative_to(zone.path).parts)


def can_write_silently(sandbox: Sandbox, path: Path) -> bool:
    """Return True if a worker could have written a file, or a link to it, without asking."""
    # A worker file asks once it exists; before that, forge did not know it.
    before = copy(sandbox)
    before.own = OwnFiles(sandbox.protected)
    names = {name_in(sandbox, real) for real in (path.resolve(), path.parent.resolve() / path.name)}
    return any(_is_silent(before, name) for name in names if name)


def _is_silent(sandbox: Sandbox, name: str) -> bool:
    """Return True if writing or deleting a file asks nobody."""
    for access in (Access.WRITE, Access.DELETE):
        try:
            verdict = sandbox.judge(name, access)
        except ToolError:
            continue
        if verdict.approval is Approval.PRE_APPROVED:
            return True
    return False
