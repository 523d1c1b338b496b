"""The code that a command line starts; consent to the line is valid until the code changes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from forge_cli.files.environment import library_names
from forge_cli.files.programs import is_code, started_files
from forge_cli.files.regular import read_regular
from forge_cli.files.repository import repository_top

_INSTALLED = frozenset(
    (
        *(
            "node_modules",
            "bower_components",
            "site-packages",
            "dist-packages",
            "__pycache__",
            ".git",
            ".venv",
        ),
        *(".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache"),
    )
)
"""Folders of installed or generated files, which people do not review one by one."""
_MODULES = (".py", ".pyc", ".so")
MISSING = ""
"""The hash of a missing file."""


def started_code(
    argv: Sequence[str],
    folder: Path,
    env: Mapping[str, str] | None = None,
    outer: Iterable[Path] = (),
) -> list[Path]:
    """Return the files that a command names, and the code that these import.

    A folder that a script imports from counts with all code in it, except installed packages. Files
    named only by variables count if they are code, because variables often name a program's data.
    """
    zones = tuple(outer)
    named = started_files(argv, folder, {}, zones)
    told = started_files((), folder, env, zones)
    found = dict.fromkeys((*named.words, *filter(is_code, told.words)))
    for path in (*named.around, *told.around):
        found.update(dict.fromkeys(_code_in(path)))
    names = library_names() | {name.partition(".")[0] for name in named.imported | told.imported}
    for path in named.searched | told.searched:
        found.update(dict.fromkeys(_found_first(path, names)))
    return sorted(path for path in found if path.is_file())


def _found_first(folder: Path, names: frozenset[str]) -> Iterator[Path]:
    """Yield the modules with these names in a folder, compiled or not."""
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.partition(".")[0] in names and entry.name.endswith(_MODULES):
                yield Path(entry.path)
            elif entry.name in names and os.path.isfile(os.path.join(entry.path, "__init__.py")):
                yield from _code_in(Path(entry.path))


def _code_in(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for place, folders, names in os.walk(path):
        # os.walk enters only the folders that are left in its list.
        folders[:] = [
            name for name in folders if name not in _INSTALLED and not _is_environment(place, name)
        ]
        for name in names:
            file = Path(place, name)
            if is_code(file):
                yield file


def _is_environment(place: str, name: str) -> bool:
    return os.path.exists(os.path.join(place, name, "pyvenv.cfg"))


def content_of_code(
    argv: Sequence[str], folder: Path, env: Mapping[str, str] | None = None
) -> dict[Path, bytes]:
    """Return the files in the surrounding repository with their content; others are ignored."""
    top = repository_top(folder)
    found = started_code(argv, folder, env, [folder / ".forge"])
    return {path: _read(path) for path in found if path.is_relative_to(top)}


def _read(path: Path) -> bytes:
    try:
        return read_regular(path)
    except OSError:
        return b""


def hashes_of(paths: Iterable[Path]) -> dict[Path, str]:
    """Return the hash of each file; MISSING for one that cannot be read."""
    found: dict[Path, str] = {}
    for path in paths:
        try:
            found[path] = sha256(read_regular(path)).hexdigest()
        except OSError:
            found[path] = MISSING
    return found
