"""The scan for plugins: which entry points of the group ``forge`` are installed, found without importing them."""

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
from forge_cli.core.source import GROUP, OWN, Source, canonical
from forge_cli.core.text import did_you_mean
from forge_cli.core.thirdparty import announce_third_party

if TYPE_CHECKING:
    from importlib.metadata import Distribution

MODEL, RENDER, EXECUTOR, OBSERVER, COMMAND = (
    "model.",
    "render.",
    "executor.",
    "observer.",
    "command.",
)
"""How the names of entry points begin that are not toolsets."""
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
    """An entry point of the group ``forge``; nothing of it is imported yet."""

    name: str
    value: str
    distribution: str
    version: str
    summary: str = ""
    """The distribution's summary."""

    @property
    def source(self) -> Source:
        return Source(
            "builtin" if self.distribution == OWN else "package", str(self), self.distribution
        )

    @property
    def is_local(self) -> bool:
        """Does it lie beside a worker, instead of being installed?"""
        return False

    @property
    def digest(self) -> str | None:
        """Content that a remembered grant is bound to; of what is installed the source names a version."""
        return None

    def load(self) -> Any:
        """Import what the entry point names: ``module`` or ``module:attribute``."""
        module, _, attributes = self.value.partition(":")
        loaded: Any = import_module(module.strip())
        for attribute in filter(None, attributes.strip().split(".")):
            loaded = getattr(loaded, attribute)
        return loaded

    def announce(self) -> None:
        """Say that code of this plugin is about to be called, unless it is forge's own."""
        if self.distribution != OWN:
            announce_third_party(f"the plugin '{self.name}' of {self}")

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


def installed(cache: Path) -> tuple[Plugin, ...]:
    """Every plugin on ``sys.path``, forge's own first.

    Reading the metadata of all that is installed takes longer than everything else at start, so what was found is
    kept in ``cache`` until a folder on the path, or the entry points of a distribution, have another time or size.
    """
    path = [os.path.abspath(entry) for entry in sys.path if isinstance(entry, str)]
    file = cache / f"plugins-{_digest([path, __version__])[:16]}.json"
    plugins = _read(file, path)
    if plugins is None:
        stamps = {entry: file_stamp(entry) for entry in path}
        plugins = _search(stamps)
        _keep(
            file, {"path": path, "stamps": stamps, "plugins": [vars(plugin) for plugin in plugins]}
        )
    return tuple(
        sorted(
            plugins,
            key=lambda plugin: (plugin.distribution != OWN, plugin.name, plugin.distribution),
        )
    )


def allowed(plugins: Iterable[Plugin], only: Collection[str] | None = None) -> list[Plugin]:
    """Forge's own, and those of the distributions ``only``; without them, of those that FORGE_LOAD_PLUGINS names."""
    names = _named() if only is None else {canonical(name) for name in only}
    if names is None:
        return list(plugins)
    return [
        plugin
        for plugin in plugins
        if plugin.distribution == OWN or canonical(plugin.distribution) in names
    ]


def find_unknown_names(plugins: Iterable[Plugin]) -> Iterator[str]:
    """A sentence for each name in FORGE_LOAD_PLUGINS that is not a distribution with plugins."""
    known = {canonical(plugin.distribution) for plugin in plugins}
    for name in sorted((_named() or set()) - known):
        near = did_you_mean(name, sorted(known - {OWN}), "")
        yield f"{LOAD_PLUGINS}: no plugin is installed from '{name}'{f'; {near}' if near else ''}"


def _named() -> set[str] | None:
    stated = os.environ.get(LOAD_PLUGINS)
    return (
        None if stated is None else {canonical(name) for name in stated.split(",") if name.strip()}
    )


def kind_and_name(entry_point: str) -> tuple[str, str]:
    """The kind of an entry point, and its name for people: ``model.echo`` is the model provider ``echo``."""
    for prefix, kind in KINDS.items():
        if entry_point.startswith(prefix):
            name = entry_point.removeprefix(prefix)
            return kind, name.replace(".", " ") if prefix == COMMAND else name
    return "toolset", entry_point


def takes_name(plugin: Plugin, own: Plugin) -> bool:
    """Whether a plugin has the name of another; of commands, also what that is a group of, or would be."""
    nested = f"{plugin.name}.".startswith(f"{own.name}.") or f"{own.name}.".startswith(
        f"{plugin.name}."
    )
    return plugin.name == own.name or (nested and plugin.name.startswith(COMMAND))


def toolset_plugins(plugins: Iterable[Plugin]) -> list[Plugin]:
    """Those that are neither models nor anything else that its name says."""
    return [plugin for plugin in plugins if not plugin.name.startswith(tuple(KINDS))]


def package_places(package: str) -> list[str]:
    """The folders or the file of a package, which is not imported."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError, AttributeError):
        return []
    found = spec.submodule_search_locations or [spec.origin or ""] if spec else []
    return [place for place in found if os.path.exists(place)]


def _read(file: Path, path: list[str]) -> set[Plugin] | None:
    """The kept value, if it still holds; a file that holds something else counts for nothing."""
    try:
        kept = json.loads(file.read_bytes())
        holds = kept["path"] == path and all(
            file_stamp(entry) == stamp for entry, stamp in kept["stamps"].items()
        )
        return {Plugin(**entry) for entry in kept["plugins"]} if holds else None
    except Exception:  # a file that holds something else
        return None


def _search(stamps: dict[str, list[int] | None]) -> set[Plugin]:
    """Look through all that is installed; ``stamps`` gets those of the metadata, each taken before it is read."""
    from importlib.metadata import distributions

    plugins: dict[str, list[Plugin]] = {}
    for distribution in distributions():
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
    """The entry points of one distribution; metadata that cannot be read does not affect others."""
    try:
        entries = [entry for entry in distribution.entry_points if entry.group == GROUP]
        if not entries or not (name := distribution.name):
            return []
        known = distribution.metadata
        version, summary = (
            " ".join(known[key].split()) if key in known else "" for key in ("Version", "Summary")
        )
        return [Plugin(entry.name, entry.value, name, version or "?", summary) for entry in entries]
    except Exception:  # third-party files, which importlib.metadata reads without a check
        return []


def _keep(file: Path, found: dict[str, Any]) -> None:
    """A home that cannot be written only costs the time of the next scan, and none is made for this."""
    with suppress(OSError):
        from forge_cli.files.replace import replace_file

        os.stat(file.parent.parent)
        replace_file(file, json.dumps(found), durable=False)


def file_stamp(path: str | Path) -> list[int] | None:
    """Equal as long as a file was not written to, as far as can be told without reading it; None where it is not."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_mtime_ns, status.st_size, status.st_ino]


def _digest(parts: Iterable[Any]) -> str:
    return sha256(json.dumps(list(parts)).encode()).hexdigest()
