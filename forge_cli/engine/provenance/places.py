"""Paths that calls read, with their zones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct


class PlaceRead(Struct, frozen=True):
    """A path that a call reads, and the zone of the real file; None outside of the zones."""

    path: Path
    zone: str | None


def zone_of(path: Path, zones: Mapping[str, Path]) -> str | None:
    """Return the zone of a real path, the innermost of several; None outside of all."""
    around = [name for name, folder in zones.items() if path.is_relative_to(folder)]
    return max(around, key=lambda name: len(zones[name].parts), default=None)
