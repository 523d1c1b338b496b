"""Hooks, and settings that name programs: no command changes them, even in a protected folder that it may write to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

HOOKS, INFO, MODULES = "hooks", "info", "modules"
_NAMES = (HOOKS, "config", "config.worktree", "commondir", MODULES, f"{INFO}/attributes", "remotes", "branches")
_WORKTREE_NAMES = ("commondir", "config.worktree", "gitdir")


def hooks_in(folder: Path) -> Iterator[Path]:
    """The hooks and settings in a folder such as ``.git``, existing or not."""
    yield from (folder / name for name in _NAMES)
    with suppress(OSError):
        for tree in (folder / "worktrees").iterdir():
            yield from (tree / name for name in _WORKTREE_NAMES)


def way_to_hooks(folder: Path) -> Path:
    """The folder in it around a setting: it must not be moved away with that, and another put in its place."""
    return folder / INFO


class KeptHooks:
    """What cannot be mounted while a command runs, because it is a link or does not exist, as it was before."""

    def __init__(self, folders: Iterable[Path]) -> None:
        places: list[Path] = []
        for folder in folders:
            if (folder / "objects").is_dir():
                for name in (HOOKS, INFO, MODULES):
                    with suppress(FileExistsError):
                        (folder / name).mkdir()
            places += hooks_in(folder)
        self._before = {place: _target(place) for place in places if place.is_symlink() or not place.exists()}

    def restore(self) -> list[str]:
        """Put everything back; returns what could not be."""
        failed = []
        for place, target in self._before.items():
            if os.path.lexists(place) != (target is not None) or _target(place) != target:
                try:
                    _restore(place, target)
                except OSError:
                    failed.append(str(place))
        return failed


def _target(place: Path) -> str | None:
    return os.readlink(place) if place.is_symlink() else None


def _restore(place: Path, target: str | None) -> None:
    if os.path.realpath(place.parent) != str(place.parent):
        raise OSError(f"{place.parent} leads elsewhere by now")
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    if target is not None:
        place.symlink_to(target)
