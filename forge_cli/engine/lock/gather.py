"""Everything that a worker consists of now, as entries of a lock: files first, then what its open toolsets offer."""

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
    """The parts of a worker and of its children; nothing of them is imported but toolsets that are installed."""

    def __init__(self, worker: Worker, workspace: Path, home: Path, only: Any = None) -> None:
        """``only`` are the distributions whose plugins may load, as PluginHost takes them."""
        self.worker, self.workspace, self.home = worker, workspace, home
        self._only = only
        self.packages: set[str] = set()
        """The first names of what is imported from packages."""
        self.hashes: dict[str, str] = {}
        """The hash of each file of these packages, by its real path."""

    @cached_property
    def workers(self) -> tuple[Worker, ...]:
        """All of them, the worker itself first."""
        return tuple(with_children(self.worker))

    @cached_property
    def _labels(self) -> dict[str, str]:
        names, labels = [each.name for each in self.workers], dict[str, str]()
        for each in self.workers[1:]:
            path = self.module_name(each.path).replace("/", ".")
            labels[os.path.realpath(each.path)] = (
                f"{each.name if names.count(each.name) == 1 else path}:"
            )
        return labels

    def label(self, worker: Worker) -> str:
        """The prefix of the names of a child's tools and servers."""
        return self._labels.get(os.path.realpath(worker.path), "")

    def spelled(self, path: Path) -> str:
        return spelled(path, self.worker.folder, self.home)

    def module_name(self, path: Path) -> str:
        return self.spelled(path).removeprefix("./")

    def code(self) -> list[LockEntry]:
        """Files that are imported or read before anything is opened."""
        found = [*self._worker_files(), *self._modules(), *self._plugins(), *self._project()]
        found += interpreter_entries(self.worker.folder, self.home)
        return list({(each.section, each.name): each for each in reversed(found)}.values())

    def declared(self) -> list[LockEntry]:
        """Things that toolsets say they are going to use; the packages that they come from are imported for it."""
        host, found = PluginHost(self._only), list[LockEntry]()
        for worker in self.workers:
            places = ToolsetPlaces(worker.folder, self.workspace, self.home)
            for name in worker.config.toolsets:
                with suppress(
                    WorkerError
                ):  # one that lies beside the worker; else reported where it is opened
                    toolset = NamedToolset(worker, name, *host.toolset(name))
                    label = self.label(worker)
                    found += [
                        _labelled(label, each)
                        for each in toolset.declared(toolset.cls.parts_for, places)
                    ]
        return list({(each.section, each.name): each for each in reversed(found)}.values())

    def worker_entry(self, worker: Worker) -> LockEntry:
        """The file of one of the workers, as it was read."""
        content, origin, label = (
            worker.digest or _hash_file(worker.path),
            self.spelled(worker.path),
            self.label(worker),
        )
        if worker is self.worker:
            return LockEntry("worker", worker.name, origin, content)
        return LockEntry("children", label.removesuffix(":") or worker.name, origin, content)

    def _worker_files(self) -> Iterator[LockEntry]:
        for worker in self.workers:
            root = worker is self.worker
            yield self.worker_entry(worker)
            schema = worker.config.output_schema
            if isinstance(schema, str):
                path = worker.folder / schema
                yield LockEntry(
                    "worker",
                    f"{self.label(worker)}output_schema",
                    self.spelled(path),
                    _hash_file(path),
                )
            if (model := worker.config.model or "").startswith(_SCRIPT):
                path = worker.folder / model.removeprefix(_SCRIPT)
                yield LockEntry(
                    "worker", f"{self.label(worker)}model", self.spelled(path), _hash_file(path)
                )
            for path in guidance_files(self.workspace) if root and worker.config.agents_md else ():
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
        wanted: dict[str, tuple[str, list[str]]] = {}
        for origin, plugin in self._used(known):
            wanted.setdefault(plugin.distribution, (origin, []))[1].append(
                plugin.value.partition(":")[0].strip()
            )
        for worker in self.workers:
            for part in worker.sections_of("external"):
                package = str(part.get("package"))
                name = distribution_of(package) or package.partition(".")[0]
                wanted.setdefault(name, ("toolsets.external", []))[1].append(package)
        for module, library in self._libraries():
            name = distribution_of(library) or library
            wanted.setdefault(name, (f"imported by {self.module_name(module)}", []))[1].append(
                library
            )
        for name, (origin, packages) in wanted.items():
            yield from self._package_entries(name, origin, packages)

    def _libraries(self) -> Iterator[tuple[Path, str]]:
        """The first names of installed modules that code beside the workers imports, but for Python's own."""
        for worker in self.workers:
            for _, sources in _sources(worker):
                path = sources.main.path if sources.main else sources.folder
                for name in sorted(sources.libraries - sys.stdlib_module_names):
                    if canonical(distribution_of(name) or "") != OWN and package_places(name):
                        yield path, name

    def _package_entries(
        self, name: str, origin: str, packages: Iterable[str]
    ) -> Iterator[LockEntry]:
        """A distribution that a worker uses, and all that it requires; ``packages`` are those imported of it."""
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
        """The installed files, others in its packages, and its entry points: by paths from where it is installed."""
        files: dict[str, bytes] = {}
        tops = set(packages)
        for path in (found.files or ()) if found else ():
            inside = path.as_posix()
            if not inside.startswith("..") and not inside.endswith(
                (".pyc", ".pth", *_OF_THE_MACHINE)
            ):
                files |= self._keep(
                    _read(Path(str(path.locate())), inside), Path(str(path.locate()))
                )
                top = path.parts[0].partition(".")[0]
                if len(path.parts) > 1 and path.parts[0].isidentifier():
                    tops.add(path.parts[0])
                elif len(path.parts) == 1 and top.isidentifier():
                    self.packages.add(top)
        for text in ("METADATA", "entry_points.txt"):
            files[text] = ((found.read_text(text) if found else None) or "").encode()
        for package in sorted({each.partition(".")[0] for each in tops}):
            self.packages.add(package)
            for place in map(Path, package_places(package)):
                inside_of = files_below(place) if place.is_dir() else {}
                for inside, content in inside_of.items():
                    files |= self._keep({f"{package}/{inside}": content}, place / inside)
                if not place.is_dir():
                    files |= self._keep(_read(place, place.name), place)
        return files

    def _keep(self, content: dict[str, bytes], path: Path) -> dict[str, bytes]:
        """Keep the hash of a file that was read."""
        for text in content.values():
            self.hashes[os.path.realpath(path)] = sha256(text).hexdigest()
        return content

    def _used(self, known: list[Plugin]) -> Iterator[tuple[str, Plugin]]:
        """The installed plugins that the workers name."""
        names: dict[str, str] = {}
        for worker in self.workers:
            names |= {name: f"toolsets.{name}" for name in worker.config.toolsets}
            if worker.config.model and ":" in worker.config.model:
                names[MODEL + worker.config.model.partition(":")[0]] = (
                    f"model {worker.config.model}"
                )
        for hook in self._settings.hooks if self._settings else ():
            if hook.observer:
                names[OBSERVER + hook.observer] = f"hooks: {hook.observer}"
        yield from ((names[plugin.name], plugin) for plugin in known if plugin.name in names)

    @cached_property
    def _project_top(self) -> Path:
        return repository_top(self.worker.folder)

    @cached_property
    def _project_file(self) -> Path:
        """Of the repository that the worker lies in, wherever it works."""
        return project_file(self._project_top)

    @cached_property
    def _settings(self) -> Any:
        own = self.home / "config.yaml"
        file = self._project_file
        return (
            read_project(file)
            if file.is_file() and not (own.exists() and own.samefile(file))
            else None
        )

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
    """The offer of one worker's open toolsets: tools as a model reads them, and what servers say.

    What a program gives the worker is the program's own, and not among it.
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
    """The definition of a tool; its name is not in the hash, so that one that is renamed is known again."""
    effects = None if tool.effects is None else sorted(effect.value for effect in tool.effects)
    seen = hash_of(
        tool.description,
        tool.schema.json_schema,
        effects,
        tool.mode,
        getattr(tool, "definition", None),
    )
    return LockEntry("tools", f"{label}{tool.name}", toolset, seen)


def _labelled(label: str, entry: LockEntry) -> LockEntry:
    """An entry of a child worker; executables and rule sets are the same for all workers."""
    shared = entry.section in ("executables", "policy")
    return replace(entry, name=f"{label}{entry.name}") if label and not shared else entry


def _sources(worker: Worker) -> Iterator[tuple[str, Sources]]:
    """The code beside a worker, by how its file spells it."""
    for part in worker.sections_of("custom"):
        if isinstance(module := part.get("module"), str):
            yield module, Sources.beside(Path(os.path.realpath(worker.folder / module)))
    if worker.config.plugins:
        from forge_cli.engine.plugins.local import local_plugins

        for each in local_plugins(worker):
            yield each.distribution if isinstance(each, Plugin) else each.spelled, each.code.sources


def _hash_file(path: Path) -> str:
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError:
        return hash_of(None)


_OF_THE_MACHINE = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json")
"""Files of a distribution that differ from one machine to the next."""


def distribution_of(package: str) -> str | None:
    """The distribution that a package comes from; None where it lies on the path by itself."""
    from importlib.metadata import packages_distributions

    top = package.partition(".")[0]
    found = packages_distributions().get(top)
    return found[0] if found else None


def _version(found: Distribution) -> str:
    return str(found.version or "?")


def _requirements(name: str) -> Iterator[tuple[str, str]]:
    """Everything that is required, each once, with what requires it; forge and what it requires itself are not."""
    seen, waiting = {canonical(name), OWN}, [canonical(name)]
    while waiting:
        by = waiting.pop(0)
        for required in sorted({canonical(each.name) for each in requirements_of(by)} - seen):
            seen.add(required)
            waiting.append(required)
            yield required, by


def _read(path: Path, inside: str) -> dict[str, bytes]:
    try:
        return {inside: path.read_bytes()}
    except OSError:  # what is listed and gone is another content
        return {inside: b""}
