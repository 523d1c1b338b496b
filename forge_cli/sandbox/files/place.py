"""A place: a file, or a name for one, reached and held by directory descriptors.

The place that is checked is the place that is opened. A path is walked twice: ``_follow`` reads
links to find the real path as text. ``_pin`` then opens that path from the root of its zone without
following any link, so that a change in between makes it fail.
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

# The limit of the Linux kernel.
_LINKS_MAX = 40
_ATTEMPTS = 5
# Passing through a folder needs no right to list it; only Linux has a flag that says so.
FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Place(Struct, frozen=True):
    """A file, or a name for one, held by the descriptor of its folder."""

    zone: Zone
    parts: tuple[str, ...]
    """The names below the zone's root; empty for the root itself."""
    folder: int
    missing: tuple[str, ...]
    """The folders to be made between ``folder`` and the file."""
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
        """The kind of the file, or None; the root of a zone is a folder even before it is made."""
        if not self.parts:
            return "directory"
        if self.info is None:
            return None
        return kind_of(self.info.st_mode)


Identity = tuple[int, int]
"""The device and inode number of a file, which are the same under all its names."""


FileState = tuple[int, int, int]
"""The state of a file on disk; writing, linking or replacing the file changes it."""


def identity_of(info: os.stat_result) -> Identity:
    """Return the identity of a file."""
    return info.st_dev, info.st_ino


def state_of(info: os.stat_result | None) -> FileState | None:
    """Return the state of a file, or None if there is none."""
    if info is None:
        return None
    return (info.st_dev, info.st_ino, info.st_ctime_ns)


def kind_of(mode: int) -> FileKind:
    """Return the kind of a file with this mode."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    if stat.S_ISLNK(mode):
        return "link"
    return "special"


@contextmanager
def open_for_listing(folder: int, name: str = ".") -> Iterator[int]:
    """Open ``folder`` itself, or the folder ``name`` in it, so that it can be listed."""
    descriptor = os.open(
        name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder
    )
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def make_parent(place: Place) -> Iterator[int]:
    """Open the folder that a file is to be written into, making missing folders."""
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
    """Error for a path that continues below something that is not a folder."""


class _Moved(Exception):
    """The tree changed between the two walks."""


class _Trail(Struct, frozen=True):
    """The real path of a virtual one, as text, and the links that led there."""

    real: Path
    links: tuple[Path, ...]


def locate_place(
    path: ParsedPath, base: Path, zones: Sequence[Zone], *, through_last: bool = True
) -> Place:
    """Return the place that a path leads to, in any zone; the caller closes its ``folder``.

    Without ``through_last``, a link at the end of the path is the place itself.
    """
    for _ in range(_ATTEMPTS):
        trail = _trail(path, base, zones, through_last=through_last)
        with suppress(_Moved):
            return _pin(path, trail, zones, through_last=through_last)
    raise ToolError(
        f"{path} keeps changing while it is opened; try again when nothing else writes there"
    )


def _trail(path: ParsedPath, base: Path, zones: Sequence[Zone], *, through_last: bool) -> _Trail:
    """Return the real path of a path, disclosing nothing about host paths outside all zones."""
    if base != ROOT:
        return _follow(path, base, through_last=through_last)
    try:
        trail = _follow(path, base, through_last=through_last)
    # A distinct error would show whether such a file exists.
    except (OSError, ToolError):
        raise no_zone(path.text, zones) from None
    if innermost_zone(trail.real, zones) is None:
        raise no_zone(path.text, zones)
    return trail


def _follow(path: ParsedPath, base: Path, *, through_last: bool) -> _Trail:
    """Return the real path with every link followed; missing names count as plain names."""
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
        if target.startswith("/"):
            real = "/"
    return _Trail(Path(real), tuple(links))


def _target(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
            return None
        raise


def _pin(path: ParsedPath, trail: _Trail, zones: Sequence[Zone], *, through_last: bool) -> Place:
    """Open a real path without following links; its innermost zone is the one that counts."""
    zone = innermost_zone(trail.real, zones)
    if zone is None:
        raise ToolError(f"{path} leads outside every zone; use a file inside one")
    names = trail.real.relative_to(zone.path).parts
    if not zone.made and (place := _place_in_missing_zone(zone, names, trail)):
        return place
    # A path may enter another zone under a different spelling, which only identity shows.
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
                # The first walk resolved all links, so that this one was made in between.
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
    """Return a place in a zone whose folder is missing, held by the last folder that exists."""
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
    """Return the zones by the identity of their roots.

    On a file system without case, one folder has many spellings.
    """
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
    """Open a folder inside ``folder`` and close ``folder``; on an error, it stays open."""
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
