"""How the files of an undo are named: from the folder around them, and caches of programs by their folders."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct, field

from forge_cli.core.text import visible
from forge_cli.record.undo import Action, Undoing
from forge_cli.sandbox.changes.path_changes import is_scratch

MOST_NAMED = 3


class UndoneCaches(Struct):
    """The caches to which the same is done."""

    action: Action
    places: list[Path] = field(default_factory=list)

    def names(self, folder: Path) -> str:
        """Name the first of them, as seen from the folder around them, and say how many more there are."""
        named = sorted(visible(str(each.relative_to(folder))) for each in self.places)
        more = len(named) - MOST_NAMED
        text = ", ".join(named[:MOST_NAMED])
        return f"{text} and {more:,} more" if more > 0 else text


def short_name(path: Path, folder: Path) -> str:
    """Return the path as seen from the folder around it; one outside stays absolute."""
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


def split_caches(
    found: Iterable[Undoing], folder: Path
) -> tuple[list[Undoing], list[UndoneCaches]]:
    """Return the rows that people have to see, and the caches of programs below the folder that need no rows.

    What is left as it is, or is not the session's alone, has a row in any case.
    """
    rows: list[Undoing] = []
    caches: dict[Action, UndoneCaches] = {}
    for each in found:
        place = None if each.left or each.newer else _cache_of(each.file.path, folder)
        if place is None:
            rows.append(each)
            continue
        same = caches.setdefault(each.action, UndoneCaches(each.action))
        if place not in same.places:
            same.places.append(place)
    return rows, list(caches.values())


def _cache_of(path: Path, folder: Path) -> Path | None:
    """Return the outermost cache that a path is, or lies in."""
    if not path.is_relative_to(folder):
        return None
    parts = path.relative_to(folder).parts
    ends = (end for end in range(1, len(parts) + 1) if is_scratch(parts[:end]))
    end = next(ends, None)
    return None if end is None else folder.joinpath(*parts[:end])
