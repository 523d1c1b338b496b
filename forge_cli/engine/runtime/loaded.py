"""Files in a worker's zones that forge, or an unconfined program that it starts, loads or obeys."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from forge_cli.core.errors import ForgeError
from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.engine.plugins.scan import package_places
from forge_cli.files.environment import (
    environment_folders,
    imported_folders,
    imported_from,
    library_names,
    search_folders,
)
from forge_cli.files.git_hooks import hook_folders
from forge_cli.files.home import POLICY_VARIABLE
from forge_cli.files.lookup import PROJECT
from forge_cli.files.mcp import McpServer, defined_in
from forge_cli.files.mcp_project import project_servers
from forge_cli.files.programs import started_files
from forge_cli.files.settings import Settings
from forge_cli.files.sources import importable_beside, libraries_of
from forge_cli.files.trust import named_files, with_children
from forge_cli.files.worker import Worker
from forge_cli.files.worker_scan import workers_below
from forge_cli.sandbox.loaded import Find, ImportFolder, LoadedFiles, LoadedPath, is_near
from forge_cli.sandbox.protected import GIT_HOOK, OBEYED

ENVIRONMENT = "it belongs to the Python environment that forge runs in"
IMPORTED = "forge imports it"
_SCRIPT = "script:"


class LoadedFinder:
    """A finder of these files for one worker, which looks again each time it is called."""

    def __init__(
        self,
        worker: Worker,
        zones: Sequence[Zone],
        settings: Settings,
        *,
        workspace: Path,
        home: Path,
        outer: Find | None = None,
    ) -> None:
        """Take the finder of the parent worker as ``outer``."""
        self._worker = worker
        self._zones = zones
        self._settings = settings
        self._workspace = workspace
        self._home = home
        self._outer = outer
        self._searched: dict[Path, tuple[frozenset[str], str]] = {}
        """Folders in which programs look for modules first, with the names and the reason."""

    def __call__(self) -> LoadedFiles:
        if not self._roots:
            return LoadedFiles()
        self._searched.clear()
        # First, because finding the paths also fills ``_searched``.
        paths = list(self._paths())
        found = LoadedFiles.within(self._roots, paths, tuple(self._folders()))
        if self._outer is None:
            return found
        outer = self._outer()
        return LoadedFiles((*found.paths, *outer.paths), (*found.folders, *outer.folders))

    @cached_property
    def _roots(self) -> list[Path]:
        """The folders that a tool or a command can write to."""
        return [zone.path for zone in self._zones if zone.mode is ZoneMode.RW]

    def _paths(self) -> Iterator[LoadedPath]:
        yield from self._environment
        for path in imported_folders():
            yield LoadedPath(path, IMPORTED)
        for worker in self._workers():
            yield from self._of_worker(worker)
        for folder in dict.fromkeys((self._workspace, *self._roots)):
            with suppress(ForgeError, OSError):  # reported when a worker names one of them
                for project in project_servers(folder):
                    yield from self._of_servers(project.servers, folder)
        yield from self._of_servers(self._settings.mcp.servers, self._workspace)
        for hook in self._settings.hooks:
            yield from self._started(
                hook.argv, {}, self._workspace, f"the hook {hook.title} runs it"
            )
        if policy := os.environ.get(POLICY_VARIABLE):
            yield LoadedPath(Path(policy), OBEYED)
        # Last: the first reason of a path counts, and in a draft this one does not ask.
        for folder in dict.fromkeys((self._workspace, *self._roots)):
            for path in hook_folders(folder):
                yield LoadedPath(path, GIT_HOOK)

    @cached_property
    def _environment(self) -> list[LoadedPath]:
        return [LoadedPath(path, ENVIRONMENT) for path in environment_folders()]

    def _folders(self) -> Iterator[ImportFolder]:
        for path, names in search_folders():
            if any(is_near(path, root) for root in self._roots):
                yield ImportFolder(path, imported_from(path), names, IMPORTED)
        for path, (names, why) in self._searched.items():
            yield ImportFolder(path, frozenset(), names, why)

    def _workers(self) -> Iterator[Worker]:
        """Yield the worker, its children, and workers with files in a zone or in forge's home."""
        places = [*self._roots, self._workspace / PROJECT, self._home / "workers"]
        places += [zone.path for zone in self._zones if zone.mode is not ZoneMode.RW]
        seen = set[str]()
        for worker in (*with_children(self._worker), *workers_below(places)):
            path = os.path.realpath(worker.path)
            if path not in seen:
                seen.add(path)
                yield worker

    def _of_worker(self, worker: Worker) -> Iterator[LoadedPath]:
        why = f"the worker {worker.name} loads it"
        yield LoadedPath(worker.path, "forge obeys it: it is a worker file")
        lock = worker.path.with_suffix(".lock")
        yield LoadedPath(lock, "forge obeys it: it is the lock file of a worker")
        for path in named_files(worker):
            yield LoadedPath(path, why)
        for module in self._modules(worker):
            for path in importable_beside(module):
                yield LoadedPath(path, why)
            for library in libraries_of(module):
                yield from (LoadedPath(Path(place), why) for place in package_places(library))
        for entry in worker.config.plugins:
            if (path := worker.folder / entry).is_dir():
                yield LoadedPath(path, why)
        for part in worker.sections_of("external"):
            package = str(part.get("package")).partition(".")[0]
            yield from (LoadedPath(Path(place), why) for place in package_places(package))
        if (model := worker.config.model or "").startswith(_SCRIPT):
            yield LoadedPath(worker.folder / model.removeprefix(_SCRIPT), why)
        for part in worker.sections_of("mcp"):
            yield from self._of_servers(defined_in(part.get("servers")), self._workspace)

    @staticmethod
    def _modules(worker: Worker) -> Iterator[Path]:
        yield from worker.modules
        for entry in worker.config.plugins:
            path = worker.folder / entry
            if path.suffix == ".py":
                yield path

    def _of_servers(self, servers: Mapping[str, McpServer], folder: Path) -> Iterator[LoadedPath]:
        for name, server in servers.items():
            if server.command:
                why = f"the MCP server {name} is started from it"
                yield from self._started([server.command, *server.args], server.env, folder, why)

    def _started(
        self, argv: Sequence[str], env: Mapping[str, str], folder: Path, why: str
    ) -> Iterator[LoadedPath]:
        found = started_files(argv, folder, env, self._roots)
        names = library_names() | {name.partition(".")[0] for name in found.imported}
        for path in found.searched:
            self._searched[Path(os.path.realpath(path))] = (names, why)
        yield from (LoadedPath(path, why) for path in found.all)
