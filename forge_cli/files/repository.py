"""A repository as it lies around a folder: its top, its branch, and the files by which it speaks to every worker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from forge_cli.files.regular import read_regular

NAMES = ("AGENTS.md", "CLAUDE.md")
"""The first of these that a folder has counts."""
_LONGEST = 4096
_REF, _LINK = "ref: refs/heads/", "gitdir: "


class Guidance(Struct, frozen=True):
    """The text for the model, the files it comes from, and those that are not trusted."""

    text: str = ""
    files: tuple[Path, ...] = ()
    untrusted: tuple[Path, ...] = ()


def guidance_files(workspace: Path) -> list[Path]:
    """Those that there are, from the top of the repository down; without a repository, of the folder alone."""
    top = repository_top(workspace)
    folders = [folder for folder in (workspace, *workspace.parents) if folder.is_relative_to(top)]
    found: list[Path] = []
    for folder in reversed(folders):
        found += _in(folder)
    return found


def repository_top(folder: Path) -> Path:
    """The folder around this one that has a ``.git``, of this user or of the owner of the folder; else the folder."""
    # The .git of another user, as in /tmp, must not make a repository of all that is below.
    owners = {os.getuid(), _owner(folder)}
    return next(
        (each for each in (folder, *folder.parents) if _owner(each / ".git") in owners), folder
    )


def _owner(path: Path) -> int | None:
    try:
        return os.stat(path).st_uid
    except OSError:
        return None


def _in(folder: Path) -> Iterator[Path]:
    yield from [path for name in NAMES if os.path.lexists(path := folder / name)][:1]


def git_branch(folder: Path) -> str | None:
    """The branch that is checked out in or around a folder; None without one. git itself is not started."""
    for around in (folder, *folder.parents):
        place = around / ".git"
        head = _read(place / "HEAD") or _read(_linked(place) / "HEAD")
        if head is not None:
            return head.removeprefix(_REF) if head.startswith(_REF) else None
    return None


def _linked(place: Path) -> Path:
    """The repository of a worktree: its ``.git`` is a file that says so."""
    said = _read(place) or ""
    return place.parent / said.removeprefix(_LINK) if said.startswith(_LINK) else place


def _read(path: Path) -> str | None:
    try:
        return read_regular(path, _LONGEST).decode().strip()
    except (OSError, ValueError):
        return None
