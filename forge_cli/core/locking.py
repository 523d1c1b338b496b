"""An entry of a lock: one thing that a worker consists of, with the hash of what it was when people looked at it."""

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
    """One thing; ``name`` tells it from the others of its section."""

    section: Section
    name: str
    origin: str
    """The origin, in words that hold on every machine; ``from`` in the file."""
    sha256: str
    version: str = ""
    floating: str = field(default="", compare=False)
    """The way to write a fixed version, where nothing says which version is started."""


def hash_of(*parts: Any) -> str:
    """The hash of values that JSON can write; invisible characters count like any others."""
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def hash_files(files: Mapping[str, bytes]) -> str:
    """The hash of files, each by its path."""
    return hash_of(sorted((path, sha256(content).hexdigest()) for path, content in files.items()))


def files_below(folder: Path) -> dict[str, bytes]:
    """Every file in a folder by its path from there, but for what Python keeps of its own; links are not followed."""
    found: dict[str, bytes] = {}
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            path = Path(place, name)
            content = os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes()
            found[path.relative_to(folder).as_posix()] = content
    return found


def spelled(path: Path, folder: Path, home: Path | None = None) -> str:
    """A path in words that hold on every machine: from a folder, or from the person's home."""
    real = os.path.realpath(path)
    if home is not None and Path(real).is_relative_to(os.path.realpath(home)):
        return f"~/.forge/{os.path.relpath(real, os.path.realpath(home))}"
    near = os.path.relpath(real, os.path.realpath(folder))
    return near if near.startswith("..") else f"./{near}"
