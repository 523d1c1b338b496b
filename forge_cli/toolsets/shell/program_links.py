"""Links to programs of the machine, such as those of a virtual environment."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from forge_cli.sandbox.changes.path_changes import PathChange, PathKey
from forge_cli.sandbox.isolation.toolchains import find_toolchains
from forge_cli.sandbox.trial.view import hidden_folders
from forge_cli.toolsets.shell.made_folders import leads_out

_SYSTEM = tuple(
    map(Path, ("/usr/bin", "/usr/lib", "/usr/libexec", "/usr/local", "/bin", "/nix/store"))
)


def harmless_links(changes: Iterable[PathChange], zones: Iterable[Path]) -> set[PathKey]:
    """Return the new links that lead into their own new folder, or to a program.

    A program is a file of the system or of a toolchain outside all ``zones``, so that no command
    can change it.
    """
    changes = list(changes)
    zones = list(zones)
    folders = {
        change.key for change in changes if change.before is None and _kind(change) == "folder"
    }
    found = set()
    for change in changes:
        if change.before is not None or change.after is None or change.after.kind != "link":
            continue
        ways = (change.parts[:end] for end in range(len(change.parts)))
        top = next((way for way in ways if (change.zone, way) in folders), None)
        if top is None:
            continue
        target = change.after.detail
        if not leads_out(change, target, Path(change.zone, *top)) or _is_program(target, zones):
            found.add(change.key)
    return found


def _kind(change: PathChange) -> str | None:
    return change.after.kind if change.after else None


def _is_program(target: str, zones: Iterable[Path]) -> bool:
    if not os.path.isabs(target):
        return False
    real = Path(os.path.realpath(target))
    try:
        mode = real.stat().st_mode
    except OSError:
        return False
    if not stat.S_ISREG(mode) or not mode & stat.S_IXUSR or any(map(real.is_relative_to, zones)):
        return False
    return any(map(real.is_relative_to, (*_SYSTEM, *_toolchains(os.environ.get("PATH", "")))))


@cache
def _toolchains(search: str) -> frozenset[Path]:
    """Return the folders of toolchains on the PATH, which commands can read but not change."""
    return frozenset(path for _, path in find_toolchains(hidden_folders(), search))
