"""Code that Python itself runs or finds first, whatever a worker names: of the environment variables and of site."""

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
BY_ITSELF = "Python imports it by itself"


def interpreter_entries(folder: Path, home: Path) -> Iterator[LockEntry]:
    """The code that runs before forge, and the folders that modules are looked for in before any library.

    What belongs to the interpreter, or to an installed distribution, is known without them.
    """
    library = Path(os.__file__).parent
    for name in sorted(CUSTOM):
        for place in map(Path, package_places(name)):
            content = _content(place) if place.parent != library else {}
            if content:
                yield LockEntry("modules", name, BY_ITSELF, hash_files(content))
    yield from _path_files()
    if sys.flags.ignore_environment:
        return
    named = [
        Path(os.path.realpath(each))
        for each in os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if each
    ]
    shadowed = dict(search_folders())
    for path in dict.fromkeys(named):
        modules = dict.fromkeys(_modules_in(path), b"")
        found = ImportFolder(
            path, shadowed.get(path, CUSTOM), shadowed.get(path, CUSTOM), ""
        ).existing()
        shadowing: dict[str, bytes] = {}
        for each in found:
            shadowing |= {f"{each.name}/{name}": text for name, text in _content(each).items()}
        if modules or shadowing:
            name = f"PYTHONPATH {spelled(path, folder, home)}"
            yield LockEntry(
                "modules", name, "the environment", hash_files({**modules, **shadowing})
            )


def _modules_in(folder: Path) -> Iterator[str]:
    """The names of all that can be imported from there: of what no lock names, nothing else is known."""
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.endswith(_MODULES) or (entry.is_dir() and _is_package(entry)):
                yield entry.name


def _is_package(folder: os.DirEntry[str]) -> bool:
    return folder.name.isidentifier() and any(
        name.endswith(_MODULES) for name in os.listdir(folder)
    )


def _content(place: Path) -> dict[str, bytes]:
    return files_below(place) if place.is_dir() else {place.name: place.read_bytes()}


def _path_files() -> Iterator[LockEntry]:
    """The ``.pth`` files that run code, and that no distribution has brought."""
    folders = [
        Path(entry) for entry in sys.path if Path(entry).name in INSTALLED and os.path.isdir(entry)
    ]
    files: list[Path] = []
    for folder in folders:
        files += sorted(folder.glob("*.pth"))
    running = {file: text for file in files if (text := _lines_that_run(file))}
    brought = _brought() if running else {}
    for file, text in running.items():
        if brought.get(os.path.realpath(file)) != sha256(file.read_bytes()).digest():
            yield LockEntry("modules", file.name, BY_ITSELF, sha256(text).hexdigest())


def _lines_that_run(file: Path) -> bytes:
    lines = file.read_bytes().splitlines() if file.is_file() else []
    return b"\n".join(line for line in lines if line.startswith((b"import ", b"import\t")))


def _brought() -> dict[str, bytes]:
    """The hash of each ``.pth`` file that an installed distribution lists as its own."""
    found: dict[str, bytes] = {}
    for distribution in distributions():
        for path in distribution.files or ():
            if path.suffix == ".pth" and path.hash is not None and path.hash.mode == "sha256":
                digest = base64.urlsafe_b64decode(
                    path.hash.value + "=" * (-len(path.hash.value) % 4)
                )
                found[os.path.realpath(str(path.locate()))] = digest
    return found
