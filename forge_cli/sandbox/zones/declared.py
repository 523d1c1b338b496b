"""Zones of a worker file or ``--add-dir``: resolved, checked, and created if writable."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from forge_cli.core.errors import Mark, UsageError, WorkerError
from forge_cli.core.text import visible
from forge_cli.core.zones import Zone, ZoneApproval, ZoneMode
from forge_cli.files.places import require_folder
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.zones.zones import default_zone, expand_home, zone_refusal

if TYPE_CHECKING:
    from forge_cli.sandbox.zones.config import SandboxConfig


class UnmakeableZone(WorkerError):
    """A zone whose folder is missing and cannot be created."""


def open_zones(
    config: SandboxConfig | None, *, workspace: Path, user_home: Path, file: str, make: bool = True
) -> tuple[Zone, ...]:
    """Return the zones of a worker: those it declares, or by default the working directory."""
    zones = declared_zones(config, workspace=workspace, user_home=user_home, file=file)
    if zones is None:
        return (default_zone(workspace=workspace, user_home=user_home, file=file),)
    return require_distinct(open_zone(zone, user_home=user_home, make=make) for zone in zones)


def declared_zones(
    config: SandboxConfig | None, *, workspace: Path, user_home: Path, file: str
) -> list[Zone] | None:
    """Return the zones as a worker file declares them, without looking at the disk.

    Return None if the file declares no zones.
    """
    if config is None or config.zones is None:
        return None
    return [
        _declared(config, index, workspace, user_home, file) for index in range(len(config.zones))
    ]


def _declared(
    config: SandboxConfig, index: int, workspace: Path, user_home: Path, file: str
) -> Zone:
    entry = (config.zones or ())[index]
    where = config.where("zones", index) or Mark(file)
    return Zone(
        name=entry.name,
        path=workspace / expand_home(entry.path or entry.name, user_home),
        mode=entry.mode,
        approval=ZoneApproval(entry.approval.write, entry.approval.delete),
        where=where,
        write_where=config.where("zones", index, "approval", "write") or where,
        delete_where=config.where("zones", index, "approval", "delete") or where,
        write_stated="write" in entry.approval.model_fields_set,
        delete_stated="delete" in entry.approval.model_fields_set,
    )


def open_zone(zone: Zone, *, user_home: Path, make: bool = True) -> Zone:
    """Return the zone with its root resolved; create a missing writable folder.

    Raise a WorkerError for a forbidden place. Without ``make``, nothing on disk changes, and a
    folder that could not be created is still an error.
    """
    root = _resolved(zone)
    if why := zone_refusal(root, user_home):
        raise WorkerError(zone.where, f"zone '{zone.name}': {why}", hint="name a folder of its own")
    if zone.mode is ZoneMode.RW and not os.path.lexists(root):
        return _made(zone, root, make=make)
    try:
        found = os.stat(root)
    except OSError as error:
        reason = error.strerror or str(error)
        hint = None
        if isinstance(error, FileNotFoundError):
            hint = "create it first, or declare the zone with 'mode: rw'"
        problem = f"zone '{zone.name}': {shown(str(root))}: {reason}"
        raise WorkerError(zone.where, problem, hint=hint) from None
    if not stat.S_ISDIR(found.st_mode):
        raise WorkerError(zone.where, f"zone '{zone.name}': {shown(str(root))} is not a folder")
    return replace(zone, path=root)


def require_distinct(zones: Iterable[Zone]) -> tuple[Zone, ...]:
    """Return the zones; raise a WorkerError if two have the same name or folder."""
    names: set[str] = set()
    folders: dict[tuple[int, int] | Path, Zone] = {}
    opened = tuple(zones)
    for zone in opened:
        if zone.name in names:
            raise WorkerError(
                zone.where, f"zone '{zone.name}' is declared twice", hint="give each its own name"
            )
        names.add(zone.name)
        other = folders.setdefault(_identity(zone.path), zone)
        if other is not zone:
            both = f"zones '{other.name}' and '{zone.name}'"
            message = f"{both} are the same folder, {shown(str(zone.path))}"
            raise WorkerError(zone.where, message, hint="keep one of them")
    return opened


def _identity(root: Path) -> tuple[int, int] | Path:
    """Return the identity of a folder on disk or, before it is created, its path."""
    try:
        found = os.stat(root)
    except FileNotFoundError:
        return root
    return found.st_dev, found.st_ino


def _resolved(zone: Zone) -> Path:
    try:
        return Path(os.path.realpath(zone.path))
    except (OSError, ValueError) as error:
        raise WorkerError(
            zone.where, f"zone '{zone.name}': {shown(str(zone.path))}: {error}"
        ) from None


def _made(zone: Zone, root: Path, *, make: bool) -> Zone:
    problem = _make(root) if make else _unmakeable(root)
    if problem:
        raise UnmakeableZone(
            zone.where, f"zone '{zone.name}': {shown(str(root))} cannot be created: {problem}"
        )
    return replace(zone, path=root, made=make)


def _make(root: Path) -> str | None:
    """Create the folder with its parents; return what prevents it, or None."""
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return error.strerror or str(error)
    return None


def _unmakeable(root: Path) -> str | None:
    """Return what would prevent creating the folder, without creating it."""
    above = next(folder for folder in root.parents if os.path.lexists(folder))
    if not above.is_dir():
        return os.strerror(errno.ENOTDIR)
    from forge_cli.sandbox.processes.inherited import inherited_confinement

    # Confined, this process cannot know; its parent has checked the folder outside.
    writable = inherited_confinement() or os.access(above, os.W_OK | os.X_OK)
    if writable:
        return None
    return os.strerror(errno.EACCES)


def named_file(name: str, workspace: Path, zones: Mapping[str, Path], user_home: Path) -> Path:
    """Return the path of a file that is shown or picked; it need not exist and is not judged."""
    parts = name.split("/")
    if name.startswith("/") and parts[1] in zones:
        return zones[parts[1]].joinpath(*parts[2:])
    return workspace / expand_home(name, user_home)


def added_zone(text: str, workspace: Path | None = None) -> Zone:
    """Return the zone of ``--add-dir DIR[:ro]``, named after the folder; writing asks.

    A relative DIR is relative to ``workspace``, or else to the current directory.
    """
    is_read_only = text.endswith(":ro")
    path = text.removesuffix(":ro")
    mode = ZoneMode.RO if is_read_only else ZoneMode.RW
    folder = (workspace or Path()) / Path(path).expanduser()
    require_folder("--add-dir", folder, visible(path))
    folder = folder.resolve()
    name = re.sub(r"[^a-z0-9_-]+", "-", folder.name.lower()).lstrip("0123456789_-")[:64]
    if not name:
        hint = "the zone is named after its folder; rename the folder to contain letters a to z"
        raise UsageError(f"--add-dir {visible(path)}: not a valid name for a zone", hint=hint)
    return Zone(name, folder, mode)
