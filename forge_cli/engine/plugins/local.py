"""Plugins beside a worker: files, packages and projects that its ``plugins:`` names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.source import GROUP, Source
from forge_cli.core.thirdparty import announce_third_party
from forge_cli.engine.plugins.scan import EXECUTOR, Plugin
from forge_cli.files.module import LocalModule, LocalPackage
from forge_cli.files.places import cannot_read, decode_utf8, place_of
from forge_cli.files.regular import read_regular
from forge_cli.files.settings_files import import_timeout
from forge_cli.files.sources import Sources, clash_error, importable_beside, module_paths
from forge_cli.files.worker import Worker

PROJECT = "pyproject.toml"


@dataclass(frozen=True)
class LocalPlugin(Plugin):
    """A plugin beside a worker; its ``distribution`` is the worker's spelling of its path."""

    code: LocalModule | LocalPackage = field(kw_only=True)

    @property
    def is_local(self) -> bool:
        return True

    @property
    def source(self) -> Source:
        return Source("local", self.distribution, self.distribution)

    @property
    def digest(self) -> str:
        return self.version

    def load(self) -> Any:
        limit = import_timeout()
        loaded: Any
        if isinstance(self.code, LocalModule):
            loaded = self.code.load(limit)
        else:
            loaded = self.code.load(self.module, limit)
        # Without an attribute, the module itself is the plugin.
        for attribute in filter(None, self.value.partition(":")[2].strip().split(".")):
            loaded = getattr(loaded, attribute)
        return loaded

    @property
    def module(self) -> str:
        return self.value.partition(":")[0].strip()

    def announce(self) -> None:
        announce_third_party(f"the plugin {self.distribution}")

    def __str__(self) -> str:
        return self.distribution


@dataclass(frozen=True)
class LocalCode:
    """A file or package whose hooks list its plugins; it is not imported yet."""

    spelled: str
    where: Mark | None
    code: LocalModule | LocalPackage
    module: str

    def plugin(self, name: str) -> LocalPlugin:
        return LocalPlugin(name, self.module, self.spelled, self.code.digest, code=self.code)


def local_plugins(worker: Worker) -> Iterator[LocalCode | LocalPlugin]:
    """Yield the plugins of a worker: those of a project's entry points, and unimported code."""
    for index, entry in enumerate(worker.config.plugins):
        where = worker.config.where("plugins", index)
        path = (worker.folder / entry).resolve()
        if path.suffix == ".py" and path.is_file():
            yield LocalCode(entry, where, LocalModule.read(path), path.stem)
        elif (path / PROJECT).is_file():
            yield from _project(entry, path, where)
        elif (path / "__init__.py").is_file():
            yield LocalCode(entry, where, LocalPackage.read(path.parent, [path.name]), path.name)
        else:
            problem = f"plugins: {entry} is neither a Python file nor a package nor a project"
            hint = f"name a .py file, a folder with __init__.py, or one with {PROJECT}"
            raise WorkerError(where, problem, hint=hint)


def plugins_of(code: LocalCode, offered: Sequence[str]) -> list[LocalPlugin]:
    """Return a plugin for each entry point that the hooks of a file or package ``offered``."""
    # The command line chooses an executor, so a worker cannot bring one.
    names = [name for name in offered if not name.startswith(EXECUTOR)]
    if not names:
        problem = f"plugins: {code.spelled} has no hooks, so it offers nothing"
        raise WorkerError(
            code.where, problem, hint="mark forge_toolsets with @hookimpl, or use toolsets.custom"
        )
    return [code.plugin(name) for name in names]


def plugin_files(worker: Worker) -> Iterator[Path]:
    """Yield the files of a worker's plugins, existing or not, and files that they may import."""
    for entry in worker.config.plugins:
        path = worker.folder / entry
        real = path.resolve()
        if real.is_dir():
            yield from (path / PROJECT, path / "__init__.py")
            folders = [real, *(each for each in real.rglob("*") if each.is_dir())]
            with suppress(WorkerError):  # reported when the worker is opened
                yield from _importable(real)
        else:
            yield from importable_beside(path)
            folders = [real.parent]
        for folder in folders:
            yield folder / "*.py"
            yield folder / "*" / "__init__.py"


def _importable(path: Path) -> Iterator[Path]:
    """Yield the files of a package or project, and missing ones that would be part of it."""
    if (path / PROJECT).is_file():
        for value in _entry_points(path).values():
            yield from _module_places(path, _module_of(value))
        found = _entry_modules(path)
    else:
        found = {path.parent: [path.name]}
    for root, modules in found.items():
        sources = Sources.below(root, modules)
        yield from (*sources.paths, *sources.absent)


def _project(entry: str, path: Path, where: Mark | None) -> Iterator[LocalPlugin]:
    points = _entry_points(path)
    if not points:
        problem = f"plugins: {entry} has no entry points of the group '{GROUP}'"
        hint = f"add [project.entry-points.{GROUP}] to {path / PROJECT}"
        raise WorkerError(where, problem, hint=hint)
    packages = {
        root: LocalPackage.read(root, modules) for root, modules in _entry_modules(path).items()
    }
    for name, value in points.items():
        package = packages[_root_of(path, _module_of(value))]
        yield LocalPlugin(name, str(value), entry, package.digest, code=package)


def _entry_points(path: Path) -> Mapping[str, Any]:
    """Return the entry points that a project states."""
    import tomllib

    file = path / PROJECT
    try:
        data = tomllib.loads(decode_utf8(read_regular(file), Mark(str(file))))
    except OSError as error:
        raise cannot_read(file, error) from None
    except ValueError as error:
        raise WorkerError(place_of(error, Mark(str(file))), f"this is not TOML: {error}") from None
    return _table(data, "project", "entry-points", GROUP)


def _entry_modules(path: Path) -> dict[Path, list[str]]:
    """Return the modules of a project's entry points, by the folder that they are found in."""
    found: dict[Path, list[str]] = {}
    for module in map(_module_of, _entry_points(path).values()):
        found.setdefault(_root_of(path, module), []).append(module)
    return found


def _module_of(value: Any) -> str:
    return str(value).partition(":")[0].strip()


def _module_places(path: Path, module: str) -> dict[Path, Path]:
    """Return the possible paths of a project's module, each with the folder it is found from."""
    found: dict[Path, Path] = {}
    for root in (path / "src", path):
        found |= dict.fromkeys(module_paths(root, module.split(".")), root)
    return found


def _root_of(path: Path, module: str) -> Path:
    """Return the folder that a module is found from; raise an error if there are two.

    A user who can write to one of them may have added the file that would win.
    """
    there = {root: place for place, root in _module_places(path, module).items() if place.is_file()}
    if len(there) > 1:
        raise clash_error(*reversed(there.values()))
    return next(iter(there), path)


def _table(data: Any, *keys: str) -> Mapping[str, Any]:
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data if isinstance(data, Mapping) else {}
