"""Hooks, and settings that name programs: no command changes them, even in a protected folder that it may write to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

HOOKS = "hooks"
_NAMES = (HOOKS, "config", "config.worktree", "commondir", "modules")
_WORKTREE_NAMES = ("commondir", "config.worktree", "gitdir")


def hooks_in(folder: Path) -> Iterator[Path]:
    """The hooks and settings in a folder such as ``.git``, existing or not."""
    yield from (folder / name for name in _NAMES)
    with suppress(OSError):
        for tree in (folder / "worktrees").iterdir():
            yield from (tree / name for name in _WORKTREE_NAMES)


@contextmanager
def keep_hooks(folders: Iterable[Path]) -> Iterator[None]:
    """Put back afterwards what cannot be mounted meanwhile, because it is a link or does not exist."""
    places = []
    for folder in folders:
        if (folder / "objects").is_dir():
            (folder / HOOKS).mkdir(exist_ok=True)
        places += list(hooks_in(folder))
    before = {place: _target(place) for place in places if place.is_symlink() or not place.exists()}
    try:
        yield
    finally:
        for place, target in before.items():
            if os.path.lexists(place) != (target is not None) or _target(place) != target:
                _restore(place, target)


def _target(place: Path) -> str | None:
    return os.readlink(place) if place.is_symlink() else None


def _restore(place: Path, target: str | None) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    if target is not None:
        place.symlink_to(target)
