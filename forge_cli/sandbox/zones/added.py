"""Paths as people write them: a folder that is added to those of a worker, and the file that a name means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from forge_cli.core.errors import UsageError
from forge_cli.core.text import visible
from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.files.places import require_folder
from forge_cli.sandbox.zones.zones import expanded


def named_file(name: str, workspace: Path, zones: Mapping[str, Path], user_home: Path) -> Path:
    """It need not exist, and is not judged: for what is shown, and for what a person picks."""
    parts = name.split("/")
    if name.startswith("/") and parts[1] in zones:
        return zones[parts[1]].joinpath(*parts[2:])
    return workspace / expanded(name, user_home)


def added_zone(text: str, workspace: Path | None = None) -> Zone:
    """The zone of ``--add-dir DIR[:ro]``: a zone named after the folder, in which writing asks.

    A relative DIR is looked for in ``workspace``, or where the caller stands.
    """
    path, mode = (text.removesuffix(":ro"), ZoneMode.RO) if text.endswith(":ro") else (text, ZoneMode.RW)
    folder = (workspace or Path()) / Path(path).expanduser()
    require_folder("--add-dir", folder, visible(path))
    folder = folder.resolve()
    name = re.sub(r"[^a-z0-9_-]+", "-", folder.name.lower()).lstrip("0123456789_-")[:64]
    if not name:
        hint = "a zone is named after its folder: give that a name with letters a to z in it"
        raise UsageError(f"--add-dir {visible(path)}: its name cannot be that of a zone", hint=hint)
    return Zone(name, folder, mode)
