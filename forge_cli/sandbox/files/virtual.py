"""Paths as text: virtual, relative, absolute on the host, or in the home."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from forge_cli.core.errors import ToolError
from forge_cli.core.zones import Zone
from forge_cli.files.home import user_home
from forge_cli.sandbox.names import PATH_MAX, shown, unusable

ROOT = Path("/")
HOME = "~"
USER_HOME = re.compile(r"~[A-Za-z_][\w-]*")
"""The home of a user as shells write it; ``~$letter.docx`` is an ordinary file name."""


class ParsedPath(Struct, frozen=True):
    """A path given to a tool, with its dots resolved.

    ``base`` is None for ``/``, the list of zones.
    """

    text: str
    base: Path | None
    """The real folder that ``parts`` are relative to: a zone's folder, or ``/`` outside all
    zones."""
    parts: tuple[str, ...] = ()
    folder: bool = False
    """True if only a folder can be spelled like this: with a slash or a dot at the end."""

    def __str__(self) -> str:
        return shown(self.text)


def virtual_path(zone: Zone, parts: Sequence[str] = ()) -> str:
    """Return the path ``/ZONE/...`` under which tools see a file."""
    return "/".join(("", zone.name, *parts))


def parse_path(text: str, zones: Sequence[Zone], workspace: Path | None = None) -> ParsedPath:
    """Parse a path in any of its four spellings, resolving ``..`` in the text.

    ``/NAME/rest`` is virtual if NAME is a zone, and then cannot leave the zones. Any other absolute
    path is the host's, ``~/rest`` begins in the user's home, and a relative path in the working
    directory: they are valid if a zone covers them. A folder called ``~`` in the working directory
    is ``./~``. ``~NAME`` is refused, because a shell would read it as the home of another user.
    """
    steps = text.split("/")
    _check_names(text, steps)
    folder = steps[-1] in ("", ".", "..") or text == HOME
    around: tuple[str, ...] = ()
    if text.startswith("/"):
        names = {zone.name: zone for zone in zones}
        first = next((step for step in steps if step not in ("", ".")), None)
        if first is None:
            return ParsedPath(text, None, (), True)
        # A zone wins over a host folder of the same name.
        if first in names:
            below = _climbed(text, steps, zones)
            if not below:
                return ParsedPath(text, None, (), True)
            if below[0] not in names:
                raise no_zone(text, zones)
            return ParsedPath(text, names[below[0]].path, tuple(below[1:]), folder)
    elif steps[0] == HOME:
        around = Path(os.path.realpath(user_home())).parts[1:]
        steps = steps[1:]
    elif USER_HOME.fullmatch(steps[0]):
        raise ToolError(
            f"{shown(text)} is the home of another user; for a file, write {shown('./' + text)}"
        )
    else:
        around = _working_directory(zones, workspace).parts[1:]
    parts = ("/", *_climbed(text, (*around, *steps), zones))
    zone = innermost_zone_of(parts, zones)
    base = ROOT if zone is None else zone.path
    return ParsedPath(text, base, parts[len(base.parts) :], folder)


def spell_path(path: ParsedPath, zones: Sequence[Zone], workspace: Path | None) -> str:
    """Return the path as results show it: relative to the working directory, else virtual."""
    if path.base is None:
        return "/"
    real = (*path.base.parts, *path.parts)
    slash = "/" if path.folder and path.parts else ""
    zone = innermost_zone_of(real, zones)
    inside = real[len(zone.path.parts) :] if zone else real
    place = real
    if zone and zone.stands_for:
        place = (*zone.stands_for.parts, *inside)
    own = () if workspace is None else workspace.parts
    if own and place[: len(own)] == own:
        below = place[len(own) :]
        if not below:
            return "."
        # Without the dot, such a name would be read as a home.
        dot = "./" if below[0] == HOME or USER_HOME.fullmatch(below[0]) else ""
        return f"{dot}{'/'.join(below)}{slash}"
    if zone:
        return virtual_path(zone, inside) + slash
    return path.text


class NoZone(ToolError):
    """Refusal of a path that no zone covers."""


def no_zone(text: str, zones: Sequence[Zone]) -> NoZone:
    """Return the refusal of a path that no zone covers, with what to use instead."""
    first = text.split("/", 1)[0]
    remedy = _zone_list(zones)
    if any(zone.name == first for zone in zones):
        remedy = f"use {shown('/' + text)}"
    return NoZone(f"{shown(text)} is in no zone; {remedy}")


def _climbed(text: str, steps: Iterable[str], zones: Sequence[Zone]) -> list[str]:
    parts: list[str] = []
    for step in steps:
        if step in ("", "."):
            continue
        if step != "..":
            parts.append(step)
        elif parts:
            parts.pop()
        else:
            raise ToolError(f"{shown(text)} climbs too high with '..'; {_zone_list(zones)}")
    return parts


def _working_directory(zones: Sequence[Zone], workspace: Path | None) -> Path:
    return workspace or next((zone.path for zone in zones if zone.default), ROOT)


def _check_names(text: str, steps: Sequence[str]) -> None:
    if not text:
        raise ToolError("the path is empty; name a file or a folder")
    for step in steps:
        if problem := unusable(step):
            raise ToolError(f"the name {shown(step)} {problem}; choose another name")
    # The limit of the kernel includes the zero byte at the end.
    if len(text.encode()) >= PATH_MAX:
        raise ToolError(
            f"the path {shown(text)} is longer than {PATH_MAX - 1} bytes; choose a shorter one"
        )


def _zone_list(zones: Sequence[Zone]) -> str:
    if not zones:
        return "this worker has no zones, so it can use no files"
    names = ", ".join(sorted(f"/{zone.name}" for zone in zones))
    if len(zones) > 1:
        return f"the zones are {names}"
    return f"the only zone is {names}"


def innermost_zone(path: Path, zones: Iterable[Zone]) -> Zone | None:
    """Return the zone whose folder is the deepest one around a real path, or None."""
    return innermost_zone_of(path.parts, zones)


def innermost_zone_of(parts: tuple[str, ...], zones: Iterable[Zone]) -> Zone | None:
    """Return the innermost zone for the parts of a path."""
    found = None
    depth = -1
    for zone in zones:
        own = zone.path.parts
        if len(own) > depth and parts[: len(own)] == own:
            found = zone
            depth = len(own)
    return found
