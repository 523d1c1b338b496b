"""By what a program is started: an interpreter, the binary that its source is compiled to, or itself."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

GO, PYTHON, SHELL = ".go", ".py", ".sh"
BUILD = ".build"
MADE = frozenset({BUILD, "__pycache__", ".git"})
"""Folders in a tool that are not part of it."""
INTERPRETED = frozenset({GO, SHELL, PYTHON})
LANGUAGES: Mapping[str, str] = {"go": GO, "sh": SHELL, "py": PYTHON}


def shell() -> str:
    return shutil.which("bash") or shutil.which("sh") or "/bin/sh"


def python_flags(folder: Path, files: Iterable[str]) -> list[str]:
    """How Python writes no bytecode, and reads none that lies in a tool's folder, where it was not approved.

    Reading none at all takes four times as long to start, so that is only for a folder where somebody left some.
    """
    folders = {os.path.dirname(name) for name in files}
    found = any(os.path.lexists(folder / name / "__pycache__") for name in folders)
    return ["-B", "-s", *(["-X", f"pycache_prefix={os.devnull}"] if found else [])]


def default_language() -> str:
    return "go" if find_go() else "py"


def find_go() -> Path | None:
    found = shutil.which("go")
    return Path(found) if found else None
