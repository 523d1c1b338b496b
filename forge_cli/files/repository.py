"""The repository around a folder: its top, branch and files of instructions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from forge_cli.files.regular import read_regular

NAMES = ("AGENTS.md", "CLAUDE.md")
"""The first existing one in a folder counts."""
_LONGEST = 4096
_REF = "ref: refs/heads/"
_LINK = "gitdir: "


class Guidance(Struct, frozen=True):
    """Instructions for the model, their files, and files that are not trusted."""

    text: str = ""
    files: tuple[Path, ...] = ()
    untrusted: tuple[Path, ...] = ()


def guidance_files(workspace: Path) -> list[Path]:
    """Return existing guidance files from the top of the repository down."""
    top = repository_top(workspace)
    folders = [folder for folder in (workspace, *workspace.parents) if folder.is_relative_to(top)]
    found: list[Path] = []
    for folder in reversed(folders):
        found += _in(folder)
    return found


def repository_top(folder: Path) -> Path:
    """Return the nearest parent with a ``.git``, else the folder itself."""
    # A .git of another user, as in /tmp, must not turn all folders below it into a repository.
    owners = {os.getuid(), _owner(folder)}
    for each in (folder, *folder.parents):
        if _owner(each / ".git") in owners:
            return each
    return folder


def _owner(path: Path) -> int | None:
    try:
        return os.stat(path).st_uid
    except OSError:
        return None


def _in(folder: Path) -> Iterator[Path]:
    for name in NAMES:
        if os.path.lexists(folder / name):
            yield folder / name
            return


def git_branch(folder: Path) -> str | None:
    """Return the current branch in or around a folder; None without one. git is not started."""
    for around in (folder, *folder.parents):
        place = around / ".git"
        head = _read(place / "HEAD") or _read(_linked(place) / "HEAD")
        if head is not None:
            if not head.startswith(_REF):
                return None
            return head.removeprefix(_REF)
    return None


def _linked(place: Path) -> Path:
    """Return the repository of a worktree, whose ``.git`` is a file with its path."""
    said = _read(place) or ""
    if not said.startswith(_LINK):
        return place
    return place.parent / said.removeprefix(_LINK)


def _read(path: Path) -> str | None:
    try:
        return read_regular(path, _LONGEST).decode().strip()
    except (OSError, ValueError):
        return None
