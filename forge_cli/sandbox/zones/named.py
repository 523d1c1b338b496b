"""The file of the host that a name means, as tools and people write it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from forge_cli.sandbox.zones.zones import expanded


def named_file(name: str, workspace: Path, zones: Mapping[str, Path], user_home: Path) -> Path:
    """It need not exist, and is not judged: for what is shown, and for what a person picks."""
    parts = name.split("/")
    if name.startswith("/") and parts[1] in zones:
        return zones[parts[1]].joinpath(*parts[2:])
    return workspace / expanded(name, user_home)
