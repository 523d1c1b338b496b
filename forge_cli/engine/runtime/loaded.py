"""The files in a worker's zones that this user's forge, or a program that it starts unconfined, loads or obeys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.files.environment import environment_folders, imported_folders, imported_from, search_folders
from forge_cli.sandbox.loaded import ImportFolder, LoadedFiles, LoadedPath

ENVIRONMENT = "it belongs to the Python environment that forge runs in"
IMPORTED = "forge imports it"


def loaded_files(zones: Sequence[Zone]) -> LoadedFiles:
    """All of them that a tool or a command could write to, as of now."""
    roots = [zone.path for zone in zones if zone.mode is ZoneMode.RW]
    return LoadedFiles.within(roots, _paths(), _folders())


def _paths() -> Iterator[LoadedPath]:
    yield from (LoadedPath(path, ENVIRONMENT) for path in environment_folders())
    yield from (LoadedPath(path, IMPORTED) for path in imported_folders())


def _folders() -> Iterator[ImportFolder]:
    for path, names in search_folders():
        yield ImportFolder(path, imported_from(path), names, IMPORTED)
