"""The rows of ``forge tools list``, as they are shown and cached: most of the time nothing else is loaded."""

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
    """One line of the list: a tool, or something that is broken and why."""

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
    """The tokens of the window that its definition takes, as a guess."""
    settings: list[dict[str, Any]] | None = None
    """Of a toolset that has no tools as it is: what its section in a worker file may say."""
    deferred: bool | None = None
    """True where the model is told its name only, until it asks for more."""

    @classmethod
    def broken(cls, plugin: Plugin, error: ForgeError) -> Row:
        return cls(plugin.name, plugin.name, plugin.source.kind, str(plugin), error=error.message)

    @classmethod
    def left_out(cls, toolset: str, name: str, source: Source, problem: str) -> Row:
        return cls(name, toolset, source.kind, source.origin, error=problem)

    def wire(self, *, tokens: bool = False) -> dict[str, Any]:
        """The facts known of it; what most tools do not have is left out where it is missing."""
        left_out = () if tokens else ("tokens", "deferred")
        return {
            key: value
            for key, value in asdict(self).items()
            if value is not None and key not in left_out
        }


def rows_of_all(read: Callable[[Plugin], list[Row]]) -> list[Row]:
    """Of every plugin by itself; cached until it, the user's config.yaml, or of ours an executable, changes."""
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
                if not any(row.error for row in rows):
                    cache.put(name, stamp, [asdict(row) for row in rows])
            found += rows
    return found


def plugin_stamp(plugin: Plugin, known: dict[str, str]) -> str:
    """A stamp that changes when the plugin does: its version, forge's own, and the files of its package.

    A package may have many plugins: what was found of its files is put into ``known``, and taken from there.
    """
    package = plugin.value.partition(":")[0].partition(".")[0]
    if package not in known:
        known[package] = _digest([(file, file_stamp(file)) for file in _files_of(package)])
    return _digest([vars(plugin), __version__, known[package]])


def _files_of(package: str) -> list[str]:
    """The Python files of a package or module, which is not imported."""
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
    """A stamp that changes when an executable is added, edited or removed; found without loading what reads them."""
    found: list[tuple[str, int, int]] = []
    for path in (
        sorted((*folder.glob("[!.]*"), *folder.glob("[!.]*/*")))
        if os.access(folder, os.X_OK)
        else ()
    ):
        with suppress(OSError):
            status = path.lstat()
            found.append((str(path), status.st_mtime_ns, status.st_size))
    return _digest(found)


def _cached_rows(value: Any) -> list[Row] | None:
    """Rows from the cache; None where nothing was, or nothing that this version of forge would write."""
    try:
        complete = all(row.keys() == set(Row.__struct_fields__) for row in value)
        return [Row(**row) for row in value] if complete else None
    except (TypeError, AttributeError):
        return None
