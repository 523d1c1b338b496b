"""By what a program is started: an interpreter, the binary that its source is compiled to, or itself."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

GO = ".go"
BUILD = ".build"
MADE = frozenset({BUILD, "__pycache__", ".git"})
"""Folders in a tool that are no part of it."""
INTERPRETED = frozenset({GO, ".sh", ".py"})
LANGUAGES: Mapping[str, str] = {"go": GO, "sh": ".sh", "py": ".py"}


def interpreter(suffix: str) -> list[str]:
    """The words before the path of a script; none where a file is started itself.

    Python reads no ``__pycache__`` in the tool's folder, which nobody approved, and writes none.
    """
    match suffix:
        case ".sh":
            return [shutil.which("bash") or shutil.which("sh") or "/bin/sh"]
        case ".py":
            return [sys.executable or "python3", "-B", "-s", "-X", "pycache_prefix=/dev/null"]
        case _:
            return []


def default_language() -> str:
    return "go" if find_go() else "py"


def find_go() -> Path | None:
    found = shutil.which("go")
    return Path(found) if found else None
