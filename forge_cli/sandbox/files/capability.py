"""Capability: what can be done with a place at all, before anybody is asked."""

from __future__ import annotations

import os
from collections.abc import Sequence

from forge_cli.core.errors import ToolError
from forge_cli.core.zones import Access, Zone, ZoneMode
from forge_cli.sandbox.files.place import Place, open_for_listing
from forge_cli.sandbox.files.virtual import ParsedPath
from forge_cli.sandbox.files.walk import NotAFolder


def check(path: ParsedPath, place: Place, access: Access, zones: Sequence[Zone]) -> None:
    """Refuse, in a sentence for the model, what the place does not allow."""
    if access.changes and place.zone.mode is ZoneMode.RO:
        raise ToolError(f"zone '{place.zone.name}' is read-only, so {path} cannot be changed; {_writable(zones)}")
    if place.kind == "special":
        raise ToolError(f"{path} is a special file (a pipe, socket or device); only regular files can be used")
    match access:
        case Access.READ:
            _check_file(path, place, "list it instead")
        case Access.WRITE:
            _check_file(path, place, "name a file in it")
        case Access.DELETE:
            _check_deletable(path, place, zones)
        case Access.LIST | Access.INFO:
            if place.kind == "file" and (path.folder or access is Access.LIST):
                raise NotAFolder(f"{path} is a file, not a folder; read it instead")


def _check_file(path: ParsedPath, place: Place, remedy: str) -> None:
    if place.kind == "directory":
        raise ToolError(f"{path} is a folder; {remedy}")
    if path.folder:
        raise ToolError(f"{path} names a folder, not a file; leave out what follows the name")


def _check_deletable(path: ParsedPath, place: Place, zones: Sequence[Zone]) -> None:
    if not place.parts:
        raise ToolError(f"{path} is the folder of zone '{place.zone.name}' itself, which cannot be deleted")
    if place.kind != "directory":
        if path.folder and place.info is not None:
            raise NotAFolder(f"{path} is not a folder; leave out what follows the name")
        return
    for zone in zones:
        if zone.path.is_relative_to(place.real):
            raise ToolError(f"{path} holds the folder of zone '{zone.name}', so it cannot be deleted")
    with open_for_listing(place.folder, place.name) as folder:
        if os.listdir(folder):
            raise ToolError(f"{path} is a folder that is not empty; delete the files in it first")


def _writable(zones: Sequence[Zone]) -> str:
    names = ", ".join(sorted(f"/{zone.name}" for zone in zones if zone.mode is ZoneMode.RW))
    return f"zones that can be written: {names}" if names else "no zone can be written"
