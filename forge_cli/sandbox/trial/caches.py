"""Caches among what a command changed: a line that changes nothing leaves them behind, and they are dropped."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from forge_cli.sandbox.changes.apply import ChangeSet, upper_folder
from forge_cli.sandbox.changes.path_changes import PathChange

_TAG = "CACHEDIR.TAG"
"""A folder with such a file says of itself that it is a cache (bford.info/cachedir)."""
_SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55"
"""The beginning of the file."""
_SUFFIXES = (".tsbuildinfo",)


def without_caches(changes: ChangeSet) -> ChangeSet:
    """The changes but for those in folders that say they are caches, and files of compilers for the next time."""
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
