"""Folders of git hooks that settings place outside of ``.git``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from forge_cli.files.home import user_home

_NAMES_ANOTHER = re.compile(rb"hookspath|\binclude(if)?\b", re.IGNORECASE)
_TIMEOUT = 10
_VARIABLES = ("GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM")


def hook_folders(folder: Path) -> Iterator[Path]:
    """Yield the hook folder of the surrounding repository, if it is not the usual one.

    git itself is asked, because an included file may contain the setting; but only if one could.
    """
    top = next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), None)
    if top is None:
        return
    stamps = tuple(_stamp(file) for file in _config_files(top))
    if any(name in os.environ for name in _VARIABLES) or any(
        map(_names_another, _config_files(top), stamps)
    ):
        for name in _ask(top, stamps):
            yield Path(os.path.normpath(top / name))


def _config_files(top: Path) -> list[Path]:
    home = user_home()
    git = top / ".git"
    common = [git]
    if git.is_file():  # a worktree or a submodule
        try:
            linked = top / git.read_text("utf-8", errors="replace").removeprefix("gitdir:").strip()
        except OSError:
            linked = git
        # A submodule has its settings there; a worktree uses its repository, two folders above.
        common = [linked, linked / "..", linked / ".." / ".."]
    around = os.environ.get("XDG_CONFIG_HOME") or str(home / ".config")
    own: list[Path] = []
    for each in common:
        own += (each / "config", each / "config.worktree")
    return [*own, home / ".gitconfig", Path(around, "git", "config"), Path("/etc/gitconfig")]


def _stamp(file: Path) -> tuple[int, int, int]:
    try:
        info = file.stat()
    except OSError:
        return 0, 0, 0
    return info.st_mtime_ns, info.st_size, info.st_ino


@lru_cache(maxsize=256)
def _names_another(file: Path, stamp: tuple[int, int, int]) -> bool:
    try:
        return any(stamp) and _NAMES_ANOTHER.search(file.read_bytes()) is not None
    except OSError:
        return False


# ``stamps`` is only a part of the cache key: git is asked again after a file has changed.
@lru_cache(maxsize=64)
def _ask(top: Path, stamps: tuple[tuple[int, int, int], ...]) -> tuple[str, ...]:
    # A relative entry of PATH would find a program of the project.
    program = shutil.which("git", path=os.pathsep.join(filter(os.path.isabs, os.get_exec_path())))
    if program is None:
        return ()
    argv = [
        program,
        "-C",
        str(top),
        "config",
        "--null",
        "--type=path",
        "--get-all",
        "core.hooksPath",
    ]
    try:
        done = subprocess.run(
            argv, capture_output=True, timeout=_TIMEOUT, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(name for name in os.fsdecode(done.stdout).split("\0") if name)
