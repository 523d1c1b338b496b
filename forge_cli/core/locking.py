"""Entries of a lock file: each part of a worker with the hash of its reviewed content."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, get_args

Section = Literal[
    "worker",
    "children",
    "modules",
    "plugins",
    "executables",
    "skills",
    "hooks",
    "mcp",
    "tools",
    "policy",
]
SECTIONS: tuple[Section, ...] = get_args(Section)


@dataclass(frozen=True)
class LockEntry:
    """A locked part of a worker; ``name`` is unique in its section."""

    section: Section
    name: str
    origin: str
    """Its origin in machine-independent words; ``from`` in the file."""
    sha256: str
    version: str = ""
    floating: str = field(default="", compare=False)
    """How to pin the version, if nothing determines which version starts."""


def hash_of(*parts: Any) -> str:
    """Return the hash of JSON-serializable values; invisible characters count as well."""
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def hash_files(files: Mapping[str, bytes]) -> str:
    """Return the hash of files by path."""
    return hash_of(sorted((path, sha256(content).hexdigest()) for path, content in files.items()))


def files_below(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder by relative path, without Python's caches.

    Links are not followed; their target is their content.
    """
    found: dict[str, bytes] = {}
    for place, folders, names in os.walk(folder):
        # os.walk lists a link to a folder among the folders, and does not enter it.
        links = [name for name in folders if Path(place, name).is_symlink()]
        # It enters only the folders that are left in its list.
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in (*names, *links):
            path = Path(place, name)
            content = os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes()
            found[path.relative_to(folder).as_posix()] = content
    return found


def spelled(path: Path, folder: Path, home: Path | None = None) -> str:
    """Return a path in machine-independent words, relative to ``folder`` or to the user's home."""
    real = os.path.realpath(path)
    if home is not None and Path(real).is_relative_to(os.path.realpath(home)):
        return f"~/.forge/{os.path.relpath(real, os.path.realpath(home))}"
    near = os.path.relpath(real, os.path.realpath(folder))
    return near if near.startswith("..") else f"./{near}"
