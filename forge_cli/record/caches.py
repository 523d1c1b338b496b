"""Names of files in the output of an undo: relative paths, and one row for each kind of cache."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct, field

from forge_cli.core.text import visible
from forge_cli.record.undo import Action, Undoing
from forge_cli.sandbox.changes.path_changes import is_scratch

MAX_NAMED = 3


class UndoneCaches(Struct):
    """The caches of programs that one action applies to."""

    action: Action
    places: list[Path] = field(default_factory=list)

    def names(self, folder: Path) -> str:
        """Return the first names, relative to ``folder``, and the number of others."""
        named = sorted(visible(str(each.relative_to(folder))) for each in self.places)
        more = len(named) - MAX_NAMED
        text = ", ".join(named[:MAX_NAMED])
        if more > 0:
            text += f" and {more:,} more"
        return text


def short_name(path: Path, folder: Path) -> str:
    """Return a path relative to ``folder``, or unchanged if it is outside."""
    if path.is_relative_to(folder):
        return str(path.relative_to(folder))
    return str(path)


def split_caches(
    found: Iterable[Undoing], folder: Path
) -> tuple[list[Undoing], list[UndoneCaches]]:
    """Split the files of an undo into rows to show and caches of programs, which need no row each.

    A file that was left as it is, or that others changed, always has a row.
    """
    rows: list[Undoing] = []
    caches: dict[Action, UndoneCaches] = {}
    for each in found:
        place = _cache_of(each.file.path, folder)
        if place is None or each.left or each.newer:
            rows.append(each)
            continue
        same = caches.setdefault(each.action, UndoneCaches(each.action))
        if place not in same.places:
            same.places.append(place)
    return rows, list(caches.values())


def _cache_of(path: Path, folder: Path) -> Path | None:
    """Return the outermost cache folder that contains a path or is the path itself."""
    if not path.is_relative_to(folder):
        return None
    parts = path.relative_to(folder).parts
    for end in range(1, len(parts) + 1):
        if is_scratch(parts[:end]):
            return folder.joinpath(*parts[:end])
    return None
