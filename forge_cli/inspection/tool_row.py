"""The rows of ``forge tools list`` and their cache, which avoids loading any plugin."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict

from forge_cli import __version__
from forge_cli.core.source import OWN, Source
from forge_cli.engine.plugins.scan import (
    Plugin,
    allowed,
    file_stamp,
    installed,
    package_places,
    toolset_plugins,
)
from forge_cli.files.cache import StampedCache
from forge_cli.files.home import forge_home

if TYPE_CHECKING:
    from forge_cli.core.errors import ForgeError


class Row(Struct, frozen=True):
    """A line of the list: a tool, or something broken and the reason."""

    name: str
    toolset: str
    source: str
    origin: str
    mode: str = ""
    approval: str = ""
    description: str = ""
    version: str | None = None
    label: str | None = None
    category: str | None = None
    error: str | None = None
    tokens: int | None = None
    """The estimated number of tokens of its definition."""
    settings: list[dict[str, Any]] | None = None
    """The settings that the toolset needs before it has tools."""
    deferred: bool | None = None
    """True if the model sees only the tool's name until it asks for more."""

    @classmethod
    def broken(cls, plugin: Plugin, error: ForgeError) -> Row:
        return cls(plugin.name, plugin.name, plugin.source.kind, str(plugin), error=error.message)

    @classmethod
    def left_out(cls, toolset: str, name: str, source: Source, problem: str) -> Row:
        return cls(name, toolset, source.kind, source.origin, error=problem)

    def wire(self, *, tokens: bool = False) -> dict[str, Any]:
        """Return the row as JSON; rare fields are omitted if empty."""
        left_out = () if tokens else ("tokens", "deferred")
        return {
            key: value
            for key, value in asdict(self).items()
            if value is not None and key not in left_out
        }


def rows_of_all(read: Callable[[Plugin], list[Row]]) -> list[Row]:
    """Return the rows of every plugin, each loaded by itself.

    Rows are cached until the plugin, config.yaml or an executable changes.
    """
    found = list[Row]()
    packages = dict[str, str]()
    executables = _stamp_of(forge_home() / "tools")
    config = file_stamp(forge_home() / "config.yaml")
    with StampedCache(forge_home() / "cache" / "tools.json") as cache:
        for plugin in toolset_plugins(allowed(installed(forge_home() / "cache"))):
            own = executables if plugin.distribution == OWN else ""
            name = f"{plugin.name} of {plugin}"
            stamp = f"{plugin_stamp(plugin, packages)} {config} {own}"
            rows = _cached_rows(cache.find(name, stamp))
            if rows is None:
                rows = read(plugin)
                # a broken plugin may be repaired from outside, such as by a missing package
                if not any(row.error for row in rows):
                    cache.put(name, stamp, [asdict(row) for row in rows])
            found += rows
    return found


def plugin_stamp(plugin: Plugin, known: dict[str, str]) -> str:
    """Return a stamp that changes with the plugin's version, forge's version and its files.

    ``known`` caches the stamps of packages, because one package may have many plugins.
    """
    package = plugin.value.partition(":")[0].partition(".")[0]
    if package not in known:
        known[package] = _digest([(file, file_stamp(file)) for file in _files_of(package)])
    return _digest([vars(plugin), __version__, known[package]])


def _files_of(package: str) -> list[str]:
    """Return the Python files of a package or module without importing it."""
    found = package_places(package)
    alone = [place for place in found if not os.path.isdir(place)]
    inside: list[str] = []
    for folder in found:
        for place, _, names in os.walk(folder):
            inside += [os.path.join(place, name) for name in names if name.endswith(".py")]
    return alone + sorted(inside)


def _digest(found: object) -> str:
    return sha256(repr(found).encode()).hexdigest()


def _stamp_of(folder: Path) -> str:
    """Return a stamp that changes when an executable is added, edited or removed."""
    found: list[tuple[str, int, int]] = []
    paths: list[Path] = []
    if os.access(folder, os.X_OK):  # else glob raises instead of finding nothing
        paths = sorted((*folder.glob("[!.]*"), *folder.glob("[!.]*/*")))
    for path in paths:
        with suppress(OSError):  # deleted since it was listed
            status = path.lstat()
            found.append((str(path), status.st_mtime_ns, status.st_size))
    return _digest(found)


def _cached_rows(value: Any) -> list[Row] | None:
    """Return rows from the cache, or None if this version of forge would not have written them."""
    try:
        # another version of forge may have had other fields
        complete = all(row.keys() == set(Row.__struct_fields__) for row in value)
        return [Row(**row) for row in value] if complete else None
    except (TypeError, AttributeError):  # not a list of dicts: the file was edited
        return None
