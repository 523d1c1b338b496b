"""The git branch of a folder, read from the files of its repository; git itself is not started."""

from __future__ import annotations

from pathlib import Path

from forge_cli.files.regular import read_regular

_LONGEST = 4096
_REF, _LINK = "ref: refs/heads/", "gitdir: "


def git_branch(folder: Path) -> str | None:
    """The branch that is checked out in or around a folder; None without one, as in no repository at all."""
    for around in (folder, *folder.parents):
        place = around / ".git"
        head = _read(place / "HEAD") or _read(_linked(place) / "HEAD")
        if head is not None:
            return head.removeprefix(_REF) if head.startswith(_REF) else None
    return None


def _linked(place: Path) -> Path:
    """Where the repository of a worktree lies: its ``.git`` is a file that says so."""
    said = _read(place) or ""
    return place.parent / said.removeprefix(_LINK) if said.startswith(_LINK) else place


def _read(path: Path) -> str | None:
    try:
        return read_regular(path, _LONGEST).decode().strip()
    except (OSError, ValueError):
        return None
