"""Code that Python runs or finds first, whatever a worker names."""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import distributions
from pathlib import Path

from forge_cli.core.locking import LockEntry, files_below, hash_files, spelled
from forge_cli.engine.plugins.scan import package_places
from forge_cli.files.environment import CUSTOM, INSTALLED, search_folders
from forge_cli.sandbox.loaded import ImportFolder

_MODULES = (".py", ".so", ".pyd")
PYTHON_IMPORTS_IT = "imported by Python at start"


def interpreter_entries(folder: Path, home: Path) -> Iterator[LockEntry]:
    """Yield the code that runs before forge, and the folders that are searched before libraries.

    Code of the interpreter itself, and of installed distributions, is known without these entries.
    """
    library = Path(os.__file__).parent
    for name in sorted(CUSTOM):
        for place in map(Path, package_places(name)):
            content = _content(place) if place.parent != library else {}
            if content:
                yield LockEntry("modules", name, PYTHON_IMPORTS_IT, hash_files(content))
    yield from _path_files()
    # ``python -E`` and ``-I`` do not read PYTHONPATH.
    if sys.flags.ignore_environment:
        return
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    shadowed = dict(search_folders())
    for path in dict.fromkeys(Path(os.path.realpath(each)) for each in named if each):
        # Modules by name only: the content of those that a worker uses is locked elsewhere.
        content = dict.fromkeys(_modules_in(path), b"")
        names = shadowed.get(path, CUSTOM)
        for each in ImportFolder(path, names, names, "").existing():
            for name, text in _content(each).items():
                content[f"{each.name}/{name}"] = text
        if content:
            name = f"PYTHONPATH {spelled(path, folder, home)}"
            yield LockEntry("modules", name, "the environment", hash_files(content))


def _modules_in(folder: Path) -> Iterator[str]:
    """Yield the names of everything that can be imported from a folder."""
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.endswith(_MODULES) or (entry.is_dir() and _is_package(entry)):
                yield entry.name


def _is_package(folder: os.DirEntry[str]) -> bool:
    return folder.name.isidentifier() and any(
        name.endswith(_MODULES) for name in os.listdir(folder)
    )


def _content(place: Path) -> dict[str, bytes]:
    if place.is_dir():
        return files_below(place)
    return {place.name: place.read_bytes()}


def _path_files() -> Iterator[LockEntry]:
    """Yield the ``.pth`` files that run code and belong to no distribution."""
    folders = [
        Path(entry) for entry in sys.path if Path(entry).name in INSTALLED and os.path.isdir(entry)
    ]
    files: list[Path] = []
    for folder in folders:
        files += sorted(folder.glob("*.pth"))
    running = {file: text for file in files if (text := _lines_that_run(file))}
    brought = _listed_path_files() if running else {}
    for file, text in running.items():
        if brought.get(os.path.realpath(file)) != sha256(file.read_bytes()).digest():
            yield LockEntry("modules", file.name, PYTHON_IMPORTS_IT, sha256(text).hexdigest())


def _lines_that_run(file: Path) -> bytes:
    lines = file.read_bytes().splitlines() if file.is_file() else []
    return b"\n".join(line for line in lines if line.startswith((b"import ", b"import\t")))


def _listed_path_files() -> dict[str, bytes]:
    """Return the hash of each ``.pth`` file that an installed distribution lists."""
    found: dict[str, bytes] = {}
    for distribution in distributions():
        for path in distribution.files or ():
            if path.suffix == ".pth" and path.hash is not None and path.hash.mode == "sha256":
                # Lists of files leave out the padding.
                padding = "=" * (-len(path.hash.value) % 4)
                digest = base64.urlsafe_b64decode(path.hash.value + padding)
                found[os.path.realpath(str(path.locate()))] = digest
    return found
