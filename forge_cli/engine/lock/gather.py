"""The parts of a worker as entries of a lock: files first, then the offers of its open toolsets."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forge_cli.core.errors import WorkerError
from forge_cli.core.locking import LockEntry, files_below, hash_files, hash_of, spelled
from forge_cli.core.source import OWN, PYTHON, canonical
from forge_cli.engine.gate.toolbox import NamedToolset, Toolbox
from forge_cli.engine.lock.interpreter import interpreter_entries
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.plugins.requirements import find_distribution, requirements_of
from forge_cli.engine.plugins.scan import (
    MODEL,
    OBSERVER,
    Plugin,
    allowed,
    installed,
    package_places,
)
from forge_cli.files.home import forge_home
from forge_cli.files.project import hook_code, read_project
from forge_cli.files.repository import guidance_files, repository_top
from forge_cli.files.settings_files import project_file
from forge_cli.files.sources import Sources
from forge_cli.files.trust import with_children
from forge_cli.files.worker import Worker
from forge_cli.schema.tool import Tool
from forge_cli.schema.toolset import ToolsetPlaces

if TYPE_CHECKING:
    from importlib.metadata import Distribution

_SCRIPT = "script:"
PROJECT = os.path.join(".forge", "config.yaml")


class WorkerParts:
    """The parts of a worker and its children. Only installed toolsets are imported for them."""

    def __init__(self, worker: Worker, workspace: Path, home: Path, only: Any = None) -> None:
        """Make the parts of a worker; ``only`` are the distributions whose plugins may load."""
        self.worker = worker
        self.workspace = workspace
        self.home = home
        self._only = only
        self.packages: set[str] = set()
        """The top-level names that are imported from packages."""
        self.hashes: dict[str, str] = {}
        """The hash of each file of these packages, by its real path."""

    @cached_property
    def workers(self) -> tuple[Worker, ...]:
        """The worker and its children, the worker first."""
        return tuple(with_children(self.worker))

    @cached_property
    def _labels(self) -> dict[str, str]:
        names = [each.name for each in self.workers]
        labels: dict[str, str] = {}
        for each in self.workers[1:]:
            label = each.name
            if names.count(label) > 1:
                label = self.module_name(each.path).replace("/", ".")
            labels[os.path.realpath(each.path)] = f"{label}:"
        return labels

    def label(self, worker: Worker) -> str:
        """Return the prefix of the names of a child's tools and servers."""
        return self._labels.get(os.path.realpath(worker.path), "")

    def spelled(self, path: Path) -> str:
        return spelled(path, self.worker.folder, self.home)

    def module_name(self, path: Path) -> str:
        return self.spelled(path).removeprefix("./")

    def code(self) -> list[LockEntry]:
        """Return the files that are imported or read before anything is opened."""
        found = [*self._worker_files(), *self._modules(), *self._plugins(), *self._project()]
        found += interpreter_entries(self.worker.folder, self.home)
        # Reversed, so that the first of several entries for the same part stays.
        return list({(each.section, each.name): each for each in reversed(found)}.values())

    def declared(self) -> list[LockEntry]:
        """Return the parts that toolsets declare, which imports their packages."""
        host = PluginHost(self._only)
        found: list[LockEntry] = []
        for worker in self.workers:
            places = ToolsetPlaces(worker.folder, self.workspace, self.home)
            for name in worker.config.toolsets:
                # A toolset beside the worker has no parts; any other problem is reported when it is
                # opened.
                with suppress(WorkerError):
                    toolset = NamedToolset(worker, name, *host.toolset(name))
                    label = self.label(worker)
                    found += [
                        _labelled(label, each)
                        for each in toolset.declared(toolset.cls.parts_for, places)
                    ]
        return list({(each.section, each.name): each for each in reversed(found)}.values())

    def worker_entry(self, worker: Worker) -> LockEntry:
        """Return the entry of a worker file, as it was read."""
        content = worker.digest or _hash_file(worker.path)
        origin = self.spelled(worker.path)
        if worker is self.worker:
            return LockEntry("worker", worker.name, origin, content)
        label = self.label(worker).removesuffix(":")
        return LockEntry("children", label or worker.name, origin, content)

    def _worker_files(self) -> Iterator[LockEntry]:
        for worker in self.workers:
            yield self.worker_entry(worker)
            label = self.label(worker)
            schema = worker.config.output_schema
            if isinstance(schema, str):
                path = worker.folder / schema
                name = f"{label}output_schema"
                yield LockEntry("worker", name, self.spelled(path), _hash_file(path))
            if (model := worker.config.model or "").startswith(_SCRIPT):
                path = worker.folder / model.removeprefix(_SCRIPT)
                yield LockEntry("worker", f"{label}model", self.spelled(path), _hash_file(path))
        if self.worker.config.agents_md:
            for path in guidance_files(self.workspace):
                place = os.path.relpath(path, self.workspace)
                yield LockEntry("worker", place, "the working directory", _hash_file(path))

    def _modules(self) -> Iterator[LockEntry]:
        for worker in self.workers:
            for named, sources in _sources(worker):
                for path, content in sources.hashes.items():
                    yield LockEntry("modules", self.module_name(path), named, content)
            for entry in worker.config.plugins:
                file = worker.folder / entry / "pyproject.toml"
                if file.is_file():
                    yield LockEntry("modules", self.module_name(file), entry, _hash_file(file))

    def _plugins(self) -> Iterator[LockEntry]:
        known = [
            each
            for each in allowed(installed(forge_home() / "cache"), self._only)
            if each.distribution != OWN
        ]
        origins: dict[str, str] = {}
        packages: dict[str, list[str]] = {}

        def add(distribution: str, origin: str, package: str) -> None:
            origins.setdefault(distribution, origin)
            packages.setdefault(distribution, []).append(package)

        for origin, plugin in self._used(known):
            add(plugin.distribution, origin, plugin.value.partition(":")[0].strip())
        for worker in self.workers:
            for part in worker.sections_of("external"):
                package = str(part.get("package"))
                name = distribution_of(package) or package.partition(".")[0]
                add(name, "toolsets.external", package)
        for module, library in self._libraries():
            add(
                distribution_of(library) or library,
                f"imported by {self.module_name(module)}",
                library,
            )
        for name, origin in origins.items():
            yield from self._package_entries(name, origin, packages[name])

    def _libraries(self) -> Iterator[tuple[Path, str]]:
        """Yield the installed modules that code beside the workers imports."""
        for worker in self.workers:
            for _, sources in _sources(worker):
                path = sources.main.path if sources.main else sources.folder
                for name in sorted(sources.libraries - sys.stdlib_module_names):
                    if canonical(distribution_of(name) or "") != OWN and package_places(name):
                        yield path, name

    def _package_entries(
        self, name: str, origin: str, packages: Iterable[str]
    ) -> Iterator[LockEntry]:
        """Yield a distribution and all that it requires; ``packages`` are imported from it."""
        found = find_distribution(name)
        version = _version(found) if found else ""
        content = hash_files(self._files_of(found, packages))
        yield LockEntry("plugins", canonical(name), origin, content, version)
        for required, by in _requirements(name):
            each = find_distribution(required)
            if each is not None:
                content = hash_files(self._files_of(each, ()))
                yield LockEntry("plugins", required, f"required by {by}", content, _version(each))

    def _files_of(self, found: Distribution | None, packages: Iterable[str]) -> dict[str, bytes]:
        """Return the installed files, other files in the same packages, and the entry points.

        The paths are relative to the place of installation.
        """
        files: dict[str, bytes] = {}
        tops = set(packages)
        listed = (found.files or ()) if found else ()
        for path in listed:
            inside = path.as_posix()
            # Scripts outside the packages name the interpreter of this machine.
            if inside.startswith("..") or inside.endswith((".pyc", ".pth", *_MACHINE_FILES)):
                continue
            place = Path(str(path.locate()))
            files |= self._hash_content(_read(place, inside), place)
            top = path.parts[0].partition(".")[0]
            if len(path.parts) > 1 and path.parts[0].isidentifier():
                tops.add(path.parts[0])
            # A module of a single file.
            elif len(path.parts) == 1 and top.isidentifier():
                self.packages.add(top)
        for text in ("METADATA", "entry_points.txt"):
            kept = found.read_text(text) if found else None
            files[text] = (kept or "").encode()
        for package in sorted({each.partition(".")[0] for each in tops}):
            self.packages.add(package)
            for place in map(Path, package_places(package)):
                if not place.is_dir():
                    files |= self._hash_content(_read(place, place.name), place)
                    continue
                for inside, content in files_below(place).items():
                    files |= self._hash_content({f"{package}/{inside}": content}, place / inside)
        return files

    def _hash_content(self, content: dict[str, bytes], path: Path) -> dict[str, bytes]:
        """Remember the hash of a file that was read."""
        for text in content.values():
            self.hashes[os.path.realpath(path)] = sha256(text).hexdigest()
        return content

    def _used(self, known: list[Plugin]) -> Iterator[tuple[str, Plugin]]:
        """Yield the installed plugins that the workers name."""
        names: dict[str, str] = {}
        for worker in self.workers:
            names |= {name: f"toolsets.{name}" for name in worker.config.toolsets}
            if worker.config.model and ":" in worker.config.model:
                provider = worker.config.model.partition(":")[0]
                names[MODEL + provider] = f"model {worker.config.model}"
        hooks = self._settings.hooks if self._settings else ()
        for hook in hooks:
            if hook.observer:
                names[OBSERVER + hook.observer] = f"hooks: {hook.observer}"
        for plugin in known:
            if plugin.name in names:
                yield names[plugin.name], plugin

    @cached_property
    def _project_top(self) -> Path:
        return repository_top(self.worker.folder)

    @cached_property
    def _project_file(self) -> Path:
        """The config of the repository that contains the worker, wherever it works."""
        return project_file(self._project_top)

    @cached_property
    def _settings(self) -> Any:
        own = self.home / "config.yaml"
        file = self._project_file
        # A project in the home itself would have the user's config as its own.
        if not file.is_file() or (own.exists() and own.samefile(file)):
            return None
        return read_project(file)

    def _project(self) -> Iterator[LockEntry]:
        if self._settings is None:
            return
        origin = self.spelled(self._project_file)
        yield LockEntry("policy", "project", origin, _hash_file(self._project_file))
        for hook in self._settings.hooks:
            run = hook.run or [hook.observer]
            named = {path: path.read_bytes() for path in hook.files}
            code = {**named, **hook_code(hook, self._project_top)}
            content = {self.spelled(path): text for path, text in code.items()}
            name = f"{hook.on} {hook.match} {' '.join(run)}"
            yield LockEntry("hooks", name, origin, hash_files(content))


async def offered_parts(parts: WorkerParts, worker: Worker, toolbox: Toolbox) -> list[LockEntry]:
    """Return the offers of the open toolsets of a worker: tools as a model sees them, and servers.

    Tools that a program gives the worker belong to the program, and are not included.
    """
    label = parts.label(worker)
    given: set[int] = set()
    for opened in toolbox.toolsets:
        if opened.source is PYTHON:
            given.update(map(id, opened.good or ()))
    offers = [offer for offer in toolbox.offers.values() if id(offer) not in given]
    found = [tool_entry(label, offer.tool, offer.toolset) for offer in offers]
    for opened in toolbox.toolsets:
        parts_of = await opened.ask(
            "it cannot say what it consists of", "parts()", opened.toolset.parts
        )
        found += [_labelled(label, each) for each in parts_of]
    return found


def tool_entry(label: str, tool: Tool, toolset: str) -> LockEntry:
    """Return the entry of a tool. Its name is not hashed, so that a renamed tool is recognized."""
    effects: list[str] | None = None
    if tool.effects is not None:
        effects = sorted(effect.value for effect in tool.effects)
    definition = getattr(tool, "definition", None)
    seen = hash_of(tool.description, tool.schema.json_schema, effects, tool.mode, definition)
    return LockEntry("tools", f"{label}{tool.name}", toolset, seen)


def _labelled(label: str, entry: LockEntry) -> LockEntry:
    """Return an entry with the label of its worker.

    Executables and policies are the same for all workers.
    """
    shared = entry.section in ("executables", "policy")
    if shared or not label:
        return entry
    return replace(entry, name=f"{label}{entry.name}")


def _sources(worker: Worker) -> Iterator[tuple[str, Sources]]:
    """Yield the code beside a worker, with the path as spelled in the worker's file."""
    for part in worker.sections_of("custom"):
        if isinstance(module := part.get("module"), str):
            yield module, Sources.beside(Path(os.path.realpath(worker.folder / module)))
    if worker.config.plugins:
        from forge_cli.engine.plugins.local import local_plugins

        for each in local_plugins(worker):
            path = each.distribution if isinstance(each, Plugin) else each.spelled
            yield path, each.code.sources


def _hash_file(path: Path) -> str:
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError:  # a missing file has a hash, too, so that it differs once it exists
        return hash_of(None)


_MACHINE_FILES = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json")
"""Files of a distribution that differ between machines."""


def distribution_of(package: str) -> str | None:
    """Return the distribution of a package, or None if it was not installed as one."""
    # Slow to load, and needed only for locks and policies.
    from importlib.metadata import packages_distributions

    top = package.partition(".")[0]
    found = packages_distributions().get(top)
    return found[0] if found else None


def _version(found: Distribution) -> str:
    return str(found.version or "?")


def _requirements(name: str) -> Iterator[tuple[str, str]]:
    """Yield each required distribution once, with one that requires it, without forge's."""
    seen = {canonical(name), OWN}
    waiting = [canonical(name)]
    while waiting:
        by = waiting.pop(0)
        for required in sorted({canonical(each.name) for each in requirements_of(by)} - seen):
            seen.add(required)
            waiting.append(required)
            yield required, by


def _read(path: Path, inside: str) -> dict[str, bytes]:
    try:
        return {inside: path.read_bytes()}
    except OSError:  # a listed file that is missing has to change the hash
        return {inside: b""}
