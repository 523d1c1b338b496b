"""The folder that git takes its hooks from: files in it are run by ``git commit`` and the like."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

_HOOKS = re.compile(r"^\s*(?:\[[^\]]*\]\s*)?hookspath\s*=\s*(.*?)\s*$", re.IGNORECASE | re.MULTILINE)
_INCLUDED = re.compile(r"^\s*(?:\[[^\]]*\]\s*)?path\s*=\s*(.*?)\s*$", re.IGNORECASE | re.MULTILINE)
_INCLUDES_AT_MOST = 16


def hook_folders(workspace: Path) -> Iterator[Path]:
    """The folders that git's settings name for hooks, of the repository around a folder and of the user."""
    root = next((folder for folder in (workspace, *workspace.parents) if os.path.lexists(folder / ".git")), None)
    if root is None:
        return
    todo, seen = list(_settings(root)), set[Path]()
    while todo and len(seen) < _INCLUDES_AT_MOST:
        file = todo.pop()
        if file in seen:
            continue
        seen.add(file)
        text = _read(file)
        todo += [_placed(value, file.parent) for value in _INCLUDED.findall(text)]
        yield from (_placed(value, root) for value in _HOOKS.findall(text))


def _settings(root: Path) -> Iterator[Path]:
    """The files with settings that hold in a repository."""
    folder = root / ".git"
    if folder.is_file():
        folder = _placed(_read(folder).partition("gitdir:")[2].strip(), root)
    common = _placed(_read(folder / "commondir").strip() or ".", folder)
    yield from (common / "config", folder / "config", folder / "config.worktree")
    home = Path.home()
    configured = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    yield from (home / ".gitconfig", configured / "git/config", Path("/etc/gitconfig"))


def _placed(value: str, folder: Path) -> Path:
    return folder / os.path.expanduser(value.strip('"'))


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return ""
