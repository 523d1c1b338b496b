"""Virtual paths: ``/ZONE/rest`` read as text, before anything on disk is looked at."""

from __future__ import annotations

import os.path
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from forge_cli.core.errors import ToolError
from forge_cli.sandbox.names import PATH_MAX, shown, unusable
from forge_cli.sandbox.zones.zones import Zone


@dataclass(frozen=True)
class VirtualPath:
    """A path as a tool was given it, with its dots resolved; ``zone`` is None for ``/`` itself."""

    text: str
    zone: Zone | None
    parts: tuple[str, ...] = ()
    folder: bool = False
    """Spelled as only a folder can be: with a slash or a dot at the end."""

    def __str__(self) -> str:
        return shown(self.text)


def virtual(zone: Zone, parts: Sequence[str] = ()) -> str:
    return "/".join(("", zone.name, *parts))


def parse(text: str, zones: Sequence[Zone]) -> VirtualPath:
    """Read a path; ``..`` is resolved in the text, so it climbs neither out of ``/`` nor out of a relative path."""
    steps = text.split("/")
    _check_names(text, steps)
    start = [] if text.startswith("/") else [_meaning_of_relative(text, zones).name]
    names = {zone.name: zone for zone in zones}
    parts = list(start)
    for step in steps:
        if step in ("", "."):
            continue
        if step != "..":
            if not parts and step not in names:
                raise ToolError(f"{shown(text)} is in no zone; {_remedy(text, zones)}")
            parts.append(step)
        elif len(parts) > len(start):
            parts.pop()
        else:
            raise ToolError(f"{shown(text)} climbs too high with '..'; {_zone_list(zones)}")
    folder = steps[-1] in ("", ".", "..")
    return VirtualPath(text, names[parts[0]], tuple(parts[1:]), folder) if parts else VirtualPath(text, None, (), True)


def _check_names(text: str, steps: Sequence[str]) -> None:
    if not text:
        raise ToolError("the path is empty; name a file or a folder")
    for step in steps:
        if problem := unusable(step):
            raise ToolError(f"the name {shown(step)} {problem}; choose another name")
    if len(text.encode()) >= PATH_MAX:
        raise ToolError(f"the path {shown(text)} is longer than {PATH_MAX - 1} bytes; choose a shorter one")


def _meaning_of_relative(text: str, zones: Sequence[Zone]) -> Zone:
    for zone in zones:
        if zone.default:
            return zone
    first = text.split("/", 1)[0]
    if any(zone.name == first for zone in zones):
        raise ToolError(f"{shown(text)} is relative; use {shown('/' + text)}")
    raise ToolError(f"{shown(text)} is relative; paths start with a zone: {_zone_list(zones)}")


def _remedy(text: str, zones: Sequence[Zone]) -> str:
    """What to use instead; a host's path into a zone is recognised by its text alone."""
    host = PurePosixPath(os.path.normpath(text))
    for zone in sorted(zones, key=lambda zone: len(zone.root.parts), reverse=True):
        if host.is_relative_to(zone.root):
            return f"use {shown(virtual(zone, host.relative_to(zone.root).parts))}"
    return _zone_list(zones)


def _zone_list(zones: Sequence[Zone]) -> str:
    if not zones:
        return "this worker has no zones, so it can use no files"
    names = ", ".join(sorted(f"/{zone.name}" for zone in zones))
    return f"the zones are {names}" if len(zones) > 1 else f"the only zone is {names}"
