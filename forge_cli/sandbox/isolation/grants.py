"""Grants: the rules of a confinement as a list of what is allowed, for a mechanism that can only allow.

Such a mechanism cannot take away below a folder what it gave for the folder. Where less holds somewhere below, what
lies around that is allowed piece by piece instead, as it is now.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from forge_cli.sandbox.isolation.confinement import Reach, ReachRule

_ROOT = Path("/")
_BOUND = (Reach.HIDDEN, Reach.PRIVATE, Reach.SHOWN, Reach.READ, Reach.WRITE)
"""The others are about single names in what can be written, or about links, and cannot be held this way."""


@dataclass(frozen=True)
class PathGrant:
    """A path that may be used with all that lies below it."""

    path: Path
    write: bool
    named: bool
    """Whether a rule says so of this very path, and not of a folder around it."""


def grants(rules: Iterable[ReachRule]) -> list[PathGrant]:
    """What may be read, and what may be written; where no rule holds, the host can be read."""
    reaches = {rule.path: rule.reach for rule in rules if rule.reach in _BOUND}
    tree = _Tree({_ROOT: Reach.READ, **reaches})
    return [*tree.allowed(lambda reach: reach >= Reach.SHOWN, write=False), *tree.allowed(_can_write, write=True)]


def _can_write(reach: Reach) -> bool:
    return reach is Reach.WRITE


class _Tree:
    def __init__(self, reaches: dict[Path, Reach]) -> None:
        self._reaches = reaches
        self._ways: dict[Path, set[Path]] = {}
        """Of each folder that a rule lies below, the entries that lead there."""
        for path in reaches:
            for entry, folder in zip((path, *path.parents), path.parents, strict=False):
                self._ways.setdefault(folder, set()).add(entry)

    def allowed(self, allows: Callable[[Reach], bool], *, write: bool) -> Iterator[PathGrant]:
        waiting = [(_ROOT, self._reaches[_ROOT])]
        while waiting:
            path, around = waiting.pop()
            reach = self._reaches.get(path, around)
            if self._is_alike(path, allows, allows(reach)):
                if allows(reach):
                    yield PathGrant(path, write, named=path in self._reaches)
                continue
            inside = {*self._ways[path], *(_entries(path) if allows(reach) else ())}
            waiting += [(entry, reach) for entry in inside]

    def _is_alike(self, path: Path, allows: Callable[[Reach], bool], allowed: bool) -> bool:
        """Whether the same holds for everything below."""
        return all(
            (entry not in self._reaches or allows(self._reaches[entry]) is allowed)
            and self._is_alike(entry, allows, allowed)
            for entry in self._ways.get(path, ())
        )


def _entries(folder: Path) -> Iterator[Path]:
    """What lies in a folder, but for links: what they lead to is allowed on its own, or not."""
    with suppress(OSError), os.scandir(folder) as entries:
        yield from (folder / entry.name for entry in entries if not entry.is_symlink())
