"""The scan for plugins: which entry points of the group ``forge`` are installed, found without importing them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from forge_cli import __version__
from forge_cli.core.hookspecs import GROUP
from forge_cli.core.tool import Source
from forge_cli.files.kept import write_whole

OWN = "forge-workers"


@dataclass(frozen=True)
class Plugin:
    """An entry point of the group ``forge``; nothing of it is imported yet."""

    name: str
    value: str
    distribution: str
    version: str

    @property
    def source(self) -> Source:
        return Source("builtin" if self.distribution == OWN else "package", str(self))

    def load(self) -> Any:
        """Import what the entry point names: ``module`` or ``module:attribute``."""
        module, _, attributes = self.value.partition(":")
        loaded: Any = import_module(module.strip())
        for attribute in filter(None, attributes.strip().split(".")):
            loaded = getattr(loaded, attribute)
        return loaded

    def stamp(self) -> str:
        """What changes when the plugin does: its version, forge's own, and the files of its package."""
        package = self.value.partition(":")[0].partition(".")[0]
        spec = find_spec(package)
        folders = list(spec.submodule_search_locations or ()) if spec else []
        files = sorted(path for folder in folders for path in Path(folder).rglob("*.py"))
        alone = [Path(spec.origin)] if spec and spec.origin and not folders else []
        return _digest([asdict(self), __version__, [(str(path), _stamp(str(path))) for path in (*files, *alone)]])

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


def installed(cache: Path) -> tuple[Plugin, ...]:
    """Every plugin on ``sys.path``, forge's own first.

    Reading the metadata of all that is installed takes longer than everything else at start, so what was found is
    kept in ``cache`` until a folder on the path, or the metadata of a plugin, has another time or size.
    """
    file = cache / f"plugins-{_digest([sys.path, __version__])[:16]}.json"
    kept = _read(file)
    if kept is None:
        kept = _search()
        _keep(file, kept)
    plugins = {Plugin(**entry) for entry in kept["plugins"]}
    return tuple(sorted(plugins, key=lambda plugin: (plugin.distribution != OWN, plugin.name, plugin.distribution)))


def _read(file: Path) -> dict[str, Any] | None:
    """What was kept, if it still holds."""
    try:
        kept: dict[str, Any] = json.loads(file.read_bytes())
        holds = all(_stamp(path) == stamp for path, stamp in kept["stamps"].items())
        return kept if holds and kept["path"] == sys.path else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _search() -> dict[str, Any]:
    from importlib.metadata import distributions

    plugins: list[Plugin] = []
    watched: list[str] = [entry or os.curdir for entry in sys.path]
    seen: set[str] = set()
    for distribution in distributions():
        entries = [entry for entry in distribution.entry_points if entry.group == GROUP]
        name = distribution.name if entries else ""
        if not name or name in seen:
            continue
        seen.add(name)
        plugins += [Plugin(entry.name, entry.value, name, distribution.version) for entry in entries]
        place = getattr(distribution, "_path", None)
        if isinstance(place, Path):
            watched.append(str(place / "entry_points.txt"))
    return {
        "path": list(sys.path),
        "stamps": {path: _stamp(path) for path in watched},
        "plugins": [asdict(plugin) for plugin in plugins],
    }


def _keep(file: Path, found: dict[str, Any]) -> None:
    """A home that cannot be written only costs the time of the next scan."""
    with suppress(OSError):
        write_whole(file, json.dumps(found))


def _stamp(path: str) -> list[int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_mtime_ns, status.st_size]


def _digest(parts: Iterable[Any]) -> str:
    return sha256(json.dumps(list(parts)).encode()).hexdigest()
