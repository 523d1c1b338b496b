"""Caches among the changes of a command, which are dropped for a line that only reads."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from forge_cli.sandbox.changes.apply import ChangeSet, upper_folder
from forge_cli.sandbox.changes.path_changes import PathChange

_TAG = "CACHEDIR.TAG"
"""The file that marks a folder as a cache (bford.info/cachedir)."""
_SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55"
"""The first bytes of that file."""
_SUFFIXES = (".tsbuildinfo",)


def without_caches(changes: ChangeSet) -> ChangeSet:
    """Return the changes without tagged cache folders and incremental build files."""
    known: dict[Path, bool] = {}
    kept = [change for change in changes.changes if not _is_cache(changes, change, known)]
    found = replace(changes, changes=tuple(kept))
    found.save()
    return found


def _is_cache(changes: ChangeSet, change: PathChange, known: dict[Path, bool]) -> bool:
    if change.parts and change.parts[-1].endswith(_SUFFIXES):
        return True
    for length in range(1, len(change.parts) + 1):
        inside = Path(*change.parts[:length])
        place = Path(change.zone) / inside
        if place not in known:
            copy = upper_folder(changes.folder, change.zone) / inside
            known[place] = any(_is_tagged(folder) for folder in (copy, place))
        if known[place]:
            return True
    return False


def _is_tagged(folder: Path) -> bool:
    try:
        with open(folder / _TAG, "rb") as tag:
            return tag.read(len(_SIGNATURE)) == _SIGNATURE
    except OSError:
        return False
