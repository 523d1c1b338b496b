"""Installed packages as a lock names them: version and content, and what they require."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from forge_cli.core.locking import LockEntry, files_below, hash_files
from forge_cli.core.source import OWN, canonical
from forge_cli.engine.plugins.distributions import find_distribution, requirements_of

if TYPE_CHECKING:
    from importlib.metadata import Distribution

_OF_THE_MACHINE = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json")
"""Files of a distribution that differ from one machine to the next."""


def package_entries(name: str, origin: str, packages: Iterable[str]) -> Iterator[LockEntry]:
    """A distribution that a worker uses, and all that it requires; ``packages`` are those that are imported of it."""
    found = find_distribution(name)
    version = _version(found) if found else ""
    yield LockEntry("plugins", canonical(name), origin, hash_files(_files_of(found, packages)), version)
    for required, by in _requirements(name):
        each = find_distribution(required)
        if each is not None:
            content = hash_files(_files_of(each, ()))
            yield LockEntry("plugins", required, f"required by {by}", content, _version(each))


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


def _files_of(found: Distribution | None, packages: Iterable[str]) -> dict[str, bytes]:
    """The installed files, others in its packages, and its entry points: by paths from where it is installed."""
    files: dict[str, bytes] = {}
    for path in (found.files or ()) if found else ():
        inside = path.as_posix()
        if not inside.startswith("..") and not inside.endswith((".pyc", ".pth", *_OF_THE_MACHINE)):
            files |= _read(Path(str(path.locate())), inside)
            folder = path.parts[0]
            if len(path.parts) > 1 and folder.isidentifier():
                packages = [*packages, folder]
    for text in ("METADATA", "entry_points.txt"):
        files[text] = ((found.read_text(text) if found else None) or "").encode()
    for package in sorted({each.partition(".")[0] for each in packages}):
        for place in _places(package):
            files |= (
                {f"{package}/{inside}": content for inside, content in files_below(place).items()}
                if place.is_dir()
                else _read(place, place.name)
            )
    return files


def _read(path: Path, inside: str) -> dict[str, bytes]:
    try:
        return {inside: path.read_bytes()}
    except OSError:  # what is listed and gone is another content
        return {inside: b""}


def _places(package: str) -> list[Path]:
    """The folders or the file of a package, which is not imported."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError, AttributeError):
        return []
    if spec is None:
        return []
    folders = [Path(each) for each in spec.submodule_search_locations or ()]
    return folders or ([Path(spec.origin)] if spec.origin and os.path.isfile(spec.origin) else [])
