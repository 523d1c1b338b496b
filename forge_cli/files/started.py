"""The code that a command line starts, with its content: consent to the line covers it, and holds until it changes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from forge_cli.files.programs import is_code, started_files
from forge_cli.files.regular import read_regular

_INSTALLED = frozenset(
    (
        *("node_modules", "bower_components", "site-packages", "dist-packages", "__pycache__", ".git", ".venv"),
        *(".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache"),
    )
)
"""Folders of what was installed or made by other programs, which no person reads file by file."""
MISSING = ""
"""In the place of a hash."""


def started_code(
    argv: Sequence[str], folder: Path, env: Mapping[str, str] | None = None, outer: Iterable[Path] = ()
) -> list[Path]:
    """The files of a command that is started in a folder: those that its words name, and the code that these import.

    A folder that a script imports from counts with all code in it, but for installed packages. What only a variable
    names counts if it is code: programs are told in this way where to keep their data.
    """
    zones = tuple(outer)
    named, told = started_files(argv, folder, {}, zones), started_files((), folder, env, zones)
    found = dict.fromkeys((*named.words, *filter(is_code, told.words)))
    for path in (*named.around, *told.around):
        found.update(dict.fromkeys(_code_in(path)))
    return sorted(path for path in found if path.is_file())


def _code_in(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for place, folders, names in os.walk(path):
        folders[:] = [name for name in folders if name not in _INSTALLED and not _is_environment(place, name)]
        yield from (file for name in names if is_code(file := Path(place, name)))


def _is_environment(place: str, name: str) -> bool:
    return os.path.exists(os.path.join(place, name, "pyvenv.cfg"))


def content_of_code(paths: Iterable[Path], folder: Path) -> dict[Path, bytes]:
    """The content of those that lie in a folder: others belong to the machine."""
    return {path: _read(path) for path in paths if path.is_relative_to(folder)}


def _read(path: Path) -> bytes:
    try:
        return read_regular(path)
    except OSError:
        return b""


def hashes_of(paths: Iterable[Path]) -> dict[Path, str]:
    """The hash of each file, and MISSING for one that cannot be read."""
    found: dict[Path, str] = {}
    for path in paths:
        try:
            found[path] = sha256(read_regular(path)).hexdigest()
        except OSError:
            found[path] = MISSING
    return found
