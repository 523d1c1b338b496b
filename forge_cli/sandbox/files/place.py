"""A place: a file, or a name for one, walked to by directory descriptors and held by that of the folder it is in.

The place that was checked is the place that is opened. A path is walked twice: ``_follow`` reads links to learn the
real path, as text; ``_pin`` then opens that path from the root of its zone without following any link. A change in
between makes the second walk fail.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from forge_cli.core.errors import ToolError
from forge_cli.core.sandbox import FileKind
from forge_cli.core.zones import Zone
from forge_cli.files.regular import sync_folder
from forge_cli.sandbox.files.virtual import ROOT, ParsedPath, innermost_zone, no_zone, virtual_path
from forge_cli.sandbox.names import shown

_LINKS_MAX = 40
_ATTEMPTS = 5
# Passing through a folder needs no right to list it; only Linux has a flag that says so.
FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Place(Struct, frozen=True):
    """A file, or a name for one, held by the descriptor of the folder it is in."""

    zone: Zone
    parts: tuple[str, ...]
    """Below the zone's root; empty for the root itself."""
    folder: int
    missing: tuple[str, ...]
    """The folders that would have to be made between ``folder`` and the file."""
    info: os.stat_result | None
    links: tuple[Path, ...] = ()

    @property
    def name(self) -> str:
        return self.parts[-1] if self.parts else "."

    @property
    def virtual(self) -> str:
        return virtual_path(self.zone, self.parts)

    @property
    def real(self) -> Path:
        return self.zone.path.joinpath(*self.parts)

    @property
    def kind(self) -> FileKind | None:
        """The root of a zone is a folder, even if it is not made yet."""
        if not self.parts:
            return "directory"
        return None if self.info is None else kind_of(self.info.st_mode)


Identity = tuple[int, int]
"""The device and the number of a file: what it is on disk, under any name."""


FileState = tuple[int, int, int]
"""A file on disk as it was at one moment: writing, linking or replacing it makes another state."""


def identity_of(info: os.stat_result) -> Identity:
    return info.st_dev, info.st_ino


def state_of(info: os.stat_result | None) -> FileState | None:
    """None where there is nothing."""
    return None if info is None else (info.st_dev, info.st_ino, info.st_ctime_ns)


def kind_of(mode: int) -> FileKind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "special"


@contextmanager
def open_for_listing(folder: int, name: str = ".") -> Iterator[int]:
    """A descriptor by which a folder can be listed: ``folder`` itself, or the one called ``name`` in it."""
    descriptor = os.open(
        name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder
    )
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def make_parent(place: Place) -> Iterator[int]:
    """The folder that a file is to be written into, made step by step where it is missing."""
    folder = os.dup(place.folder)
    try:
        for name in place.missing:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
                sync_folder(".", within=folder)
            below = os.open(name, FOLDER_FLAGS, dir_fd=folder)
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)


class NotAFolder(ToolError):
    """Something on the way is not a folder, so nothing can be below it."""


class _Moved(Exception):
    """The tree changed between the two walks."""


class _Trail(Struct, frozen=True):
    """The real path that a virtual one leads to, as text, and the links that led there."""

    real: Path
    links: tuple[Path, ...]


def locate_place(
    path: ParsedPath, base: Path, zones: Sequence[Zone], *, through_last: bool = True
) -> Place:
    """The place that a path leads to, in any zone; with ``through_last`` off, a link at its end itself.

    The caller closes its ``folder``.
    """
    for _ in range(_ATTEMPTS):
        trail = _trail(path, base, zones, through_last=through_last)
        with suppress(_Moved):
            return _pin(path, trail, zones, through_last=through_last)
    raise ToolError(
        f"{path} keeps changing while it is opened; try again when nothing else writes there"
    )


def _trail(path: ParsedPath, base: Path, zones: Sequence[Zone], *, through_last: bool) -> _Trail:
    """The place that a path leads to; of a path of the host that ends in no zone nothing else is disclosed."""
    if base != ROOT:
        return _follow(path, base, through_last=through_last)
    try:
        trail = _follow(path, base, through_last=through_last)
    except (OSError, ToolError):
        raise no_zone(path.text, zones) from None
    if innermost_zone(trail.real, zones) is None:
        raise no_zone(path.text, zones)
    return trail


def _follow(path: ParsedPath, base: Path, *, through_last: bool) -> _Trail:
    """The place that a path leads to when every link is followed; names that do not exist yet count as plain."""
    real = str(base)
    links: list[Path] = []
    pending = list(reversed(path.parts))
    while pending:
        name = pending.pop()
        if name in ("", "."):
            continue
        if name == "..":
            real = os.path.dirname(real)
            continue
        here = os.path.join(real, name)
        target = _target(here) if pending or through_last else None
        if target is None:
            real = here
            continue
        links.append(Path(here))
        if len(links) > _LINKS_MAX:
            raise ToolError(
                f"{path} leads through too many links, or in a circle; name the file itself"
            )
        pending.extend(reversed(target.split("/")))
        real = "/" if target.startswith("/") else real
    return _Trail(Path(real), tuple(links))


def _target(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
            return None
        raise


def _pin(path: ParsedPath, trail: _Trail, zones: Sequence[Zone], *, through_last: bool) -> Place:
    """Open the way to a real path, following nothing; the deepest zone on the way is the one that counts."""
    zone = innermost_zone(trail.real, zones)
    if zone is None:
        raise ToolError(f"{path} leads outside every zone; use a file inside one")
    names = trail.real.relative_to(zone.path).parts
    if not zone.made and (place := _place_in_missing_zone(zone, names, trail)):
        return place
    roots = _zones_by_identity(each for each in zones if each is not zone)
    start = 0
    folder = _open_root(zone)
    try:
        for depth, name in enumerate(names):
            info = _look(folder, name)
            if info is None:
                return Place(zone, names[start:], folder, names[depth:-1], None, trail.links)
            last = depth == len(names) - 1
            if last and not (stat.S_ISDIR(info.st_mode) and identity_of(info) in roots):
                if through_last and stat.S_ISLNK(info.st_mode):
                    raise _Moved
                return Place(zone, names[start:], folder, (), info, trail.links)
            folder = _enter(folder, name, path, virtual_path(zone, names[start : depth + 1]))
            if found := roots.get(identity_of(os.fstat(folder))):
                zone = found
                start = depth + 1
            elif last:
                raise _Moved
        return Place(zone, (), folder, (), os.fstat(folder), trail.links)
    except BaseException:
        os.close(folder)
        raise


def _place_in_missing_zone(zone: Zone, names: tuple[str, ...], trail: _Trail) -> Place | None:
    """A place in a zone whose folder is not there yet, held by the last folder on the way to it that is."""
    way = zone.path.parts[1:]
    folder = os.open("/", FOLDER_FLAGS)
    for depth, name in enumerate(way):
        try:
            below = os.open(name, FOLDER_FLAGS, dir_fd=folder)
        except FileNotFoundError:
            return Place(zone, names, folder, (*way[depth:], *names[:-1]), None, trail.links)
        except OSError:
            break
        os.close(folder)
        folder = below
    os.close(folder)
    return None


def _zones_by_identity(zones: Iterable[Zone]) -> dict[Identity, Zone]:
    """The zones by what their roots are on disk: one folder can have many spellings where case does not count."""
    found: dict[Identity, Zone] = {}
    for zone in zones:
        with suppress(ToolError):
            root = _open_root(zone)
            found[identity_of(os.fstat(root))] = zone
            os.close(root)
    return found


def _open_root(zone: Zone) -> int:
    folder = os.open("/", FOLDER_FLAGS)
    try:
        for name in zone.path.parts[1:]:
            above = folder
            folder = os.open(name, FOLDER_FLAGS, dir_fd=folder)
            os.close(above)
    except OSError as error:
        os.close(folder)
        reason = error.strerror or "it cannot be opened"
        raise ToolError(
            f"the folder of zone '{zone.name}' is not what it was at the start: {reason}"
        ) from None
    return folder


def _look(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _enter(folder: int, name: str, path: ParsedPath, spelled: str) -> int:
    """The folder below, in place of the given one, which is closed; on an error the given one stays open."""
    try:
        below = os.open(name, FOLDER_FLAGS, dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP, errno.ENOENT):
            raise
        info = _look(folder, name)
        if info is None or kind_of(info.st_mode) in ("link", "directory"):
            raise _Moved from None
        raise NotAFolder(f"{path} cannot be: {shown(spelled)} is a file, not a folder") from None
    os.close(folder)
    return below
