"""The scan for installed plugins: entry points of the group ``forge``, which are not imported."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forge_cli import __version__
from forge_cli.core.source import GROUP, OWN, Source, SourceKind, canonical
from forge_cli.core.text import did_you_mean
from forge_cli.core.thirdparty import announce_third_party

if TYPE_CHECKING:
    from importlib.metadata import Distribution

MODEL = "model."
RENDER = "render."
EXECUTOR = "executor."
OBSERVER = "observer."
COMMAND = "command."
"""Prefixes of entry points; those of toolsets have none."""
KINDS = {
    MODEL: "model provider",
    RENDER: "renderer",
    EXECUTOR: "executor",
    OBSERVER: "observer",
    COMMAND: "command",
}
LOAD_PLUGINS = "FORGE_LOAD_PLUGINS"


@dataclass(frozen=True)
class Plugin:
    """An entry point of the group ``forge``, which is not imported yet."""

    name: str
    value: str
    distribution: str
    version: str
    summary: str = ""
    """The distribution's summary."""

    @property
    def source(self) -> Source:
        kind: SourceKind = "builtin" if self.distribution == OWN else "package"
        return Source(kind, str(self), self.distribution)

    @property
    def is_local(self) -> bool:
        """True if the plugin is beside a worker instead of being installed."""
        return False

    @property
    def digest(self) -> str | None:
        """The content that a remembered grant is bound to; an installed plugin has a version."""
        return None

    def load(self) -> Any:
        """Import the object of the entry point: ``module`` or ``module:attribute``."""
        module, _, attributes = self.value.partition(":")
        loaded: Any = import_module(module.strip())
        # Without an attribute, the module itself is the plugin.
        for attribute in filter(None, attributes.strip().split(".")):
            loaded = getattr(loaded, attribute)
        return loaded

    def announce(self) -> None:
        """Note that code of this plugin is about to be called, unless it is forge's own."""
        if self.distribution != OWN:
            announce_third_party(f"the plugin '{self.name}' of {self}")

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


def installed(cache: Path) -> tuple[Plugin, ...]:
    """Return every plugin on ``sys.path``, forge's own first.

    Reading the metadata of all packages takes longer than everything else at start. The result is
    cached until a folder on the path, or the entry points of a distribution, change.
    """
    path = [os.path.abspath(entry) for entry in sys.path if isinstance(entry, str)]
    file = cache / f"plugins-{_digest([path, __version__])[:16]}.json"
    plugins = _read(file, path)
    if plugins is None:
        stamps = {entry: file_stamp(entry) for entry in path}
        plugins = _search(stamps)
        kept = [vars(plugin) for plugin in plugins]
        _keep(file, {"path": path, "stamps": stamps, "plugins": kept})
    return tuple(sorted(plugins, key=_order))


def _order(plugin: Plugin) -> tuple[bool, str, str]:
    return plugin.distribution != OWN, plugin.name, plugin.distribution


def allowed(plugins: Iterable[Plugin], only: Collection[str] | None = None) -> list[Plugin]:
    """Return forge's own plugins and those of ``only``, by default of FORGE_LOAD_PLUGINS."""
    names = _named() if only is None else {canonical(name) for name in only}
    if names is None:
        return list(plugins)
    found: list[Plugin] = []
    for plugin in plugins:
        if plugin.distribution == OWN or canonical(plugin.distribution) in names:
            found.append(plugin)
    return found


def find_unknown_names(plugins: Iterable[Plugin]) -> Iterator[str]:
    """Yield a message for each name in FORGE_LOAD_PLUGINS that has no plugins."""
    known = {canonical(plugin.distribution) for plugin in plugins}
    for name in sorted((_named() or set()) - known):
        near = did_you_mean(name, sorted(known - {OWN}), "")
        hint = f"; {near}" if near else ""
        yield f"{LOAD_PLUGINS}: no plugin is installed from '{name}'{hint}"


def _named() -> set[str] | None:
    stated = os.environ.get(LOAD_PLUGINS)
    if stated is None:
        return None
    return {canonical(name) for name in stated.split(",") if name.strip()}


def kind_and_name(entry_point: str) -> tuple[str, str]:
    """Return the kind and the name of an entry point: ``model.echo`` is a model provider."""
    for prefix, kind in KINDS.items():
        if entry_point.startswith(prefix):
            name = entry_point.removeprefix(prefix)
            return kind, name.replace(".", " ") if prefix == COMMAND else name
    return "toolset", entry_point


def takes_name(plugin: Plugin, own: Plugin) -> bool:
    """Return True if a plugin has the name of another; a command also conflicts with groups."""
    if plugin.name == own.name:
        return True
    if not plugin.name.startswith(COMMAND):
        return False
    name = f"{plugin.name}."
    own_name = f"{own.name}."
    return name.startswith(own_name) or own_name.startswith(name)


def toolset_plugins(plugins: Iterable[Plugin]) -> list[Plugin]:
    """Return the plugins without a prefix, which are toolsets."""
    return [plugin for plugin in plugins if not plugin.name.startswith(tuple(KINDS))]


def package_places(package: str) -> list[str]:
    """Return the folders or the file of a package, which is not imported."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError, AttributeError):
        return []
    if spec is None:
        return []
    found = spec.submodule_search_locations or [spec.origin or ""]
    return [place for place in found if os.path.exists(place)]


def _read(file: Path, path: list[str]) -> set[Plugin] | None:
    """Return the cached plugins, or None if something has changed or the file is invalid."""
    try:
        kept = json.loads(file.read_bytes())
        if kept["path"] != path:
            return None
        for entry, stamp in kept["stamps"].items():
            if file_stamp(entry) != stamp:
                return None
        return {Plugin(**entry) for entry in kept["plugins"]}
    except Exception:  # not a file of this kind
        return None


def _search(stamps: dict[str, list[int] | None]) -> set[Plugin]:
    """Search all packages; ``stamps`` gets those of their metadata, taken before it is read."""
    from importlib.metadata import distributions

    plugins: dict[str, list[Plugin]] = {}
    for distribution in distributions():
        # Private, but nothing public has the folder of the metadata.
        place = getattr(distribution, "_path", None)
        if isinstance(place, Path):
            file = str(place / "entry_points.txt")
            stamps[file] = file_stamp(file)
            if stamps[file] is None:
                continue
        found = _plugins_of(distribution)
        if found:
            plugins.setdefault(found[0].distribution, found)
    return set(chain.from_iterable(plugins.values()))


def _plugins_of(distribution: Distribution) -> list[Plugin]:
    """Return the plugins of one distribution; none if its metadata cannot be read."""
    try:
        entries = [entry for entry in distribution.entry_points if entry.group == GROUP]
        if not entries or not (name := distribution.name):
            return []
        known = distribution.metadata
        version = ""
        if "Version" in known:
            version = " ".join(known["Version"].split())
        summary = ""
        if "Summary" in known:
            summary = " ".join(known["Summary"].split())
        return [Plugin(entry.name, entry.value, name, version or "?", summary) for entry in entries]
    except Exception:  # third-party files, which importlib.metadata reads without a check
        return []


def _keep(file: Path, found: dict[str, Any]) -> None:
    # forge's folder is not created for a cache, and without the cache only time is lost
    with suppress(OSError):
        from forge_cli.files.replace import replace_file

        os.stat(file.parent.parent)
        replace_file(file, json.dumps(found), durable=False)


def file_stamp(path: str | Path) -> list[int] | None:
    """Return a stamp that changes when a file is written, or None if it is missing."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_mtime_ns, status.st_size, status.st_ino]


def _digest(parts: Iterable[Any]) -> str:
    return sha256(json.dumps(list(parts)).encode()).hexdigest()
