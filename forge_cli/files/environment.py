"""The Python environment of forge, and the modules that forge imports from it."""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from forge_cli.files.module import PREFIX as _LOCAL

INSTALLED = frozenset({"site-packages", "dist-packages"})
CUSTOM = frozenset({"sitecustomize", "usercustomize"})
"""Modules that Python itself imports at every start from anywhere on its path."""
_NEVER = frozenset(
    {
        "test",
        "tests",
        "idlelib",
        "lib2to3",
        "turtle",
        "turtledemo",
        "tkinter",
        "this",
        "antigravity",
    }
)
"""Standard library modules that forge does not import, and whose names projects use as well."""


def environment_folders() -> Iterator[Path]:
    """Yield folders that belong to the interpreter: environments, libraries and programs."""
    for prefix in dict.fromkeys((sys.prefix, sys.exec_prefix, sys.base_prefix)):
        if any(os.path.exists(os.path.join(prefix, name)) for name in ("pyvenv.cfg", "conda-meta")):
            yield Path(prefix)
    yield Path(os.__file__).parent
    # The link in an environment, and the interpreter that it leads to.
    for program in (sys.executable, os.path.realpath(sys.executable)):
        if program:
            yield Path(program)
    if site.ENABLE_USER_SITE:
        yield Path(site.getusersitepackages())
    for path in _search_path():
        if path.name in INSTALLED or path.suffix in (".zip", ".egg"):
            yield path


@lru_cache(maxsize=1)
def library_names() -> frozenset[str]:
    """Return the top-level names of modules that Python programs may import from libraries."""
    return _names(path for path in environment_folders() if path.is_dir())


def search_folders() -> Iterator[tuple[Path, frozenset[str]]]:
    """Yield other folders on the path, with the module names that Python looks for there."""
    libraries = {path for path in environment_folders() if path.is_dir()}
    first = True
    for path in _search_path():
        if any(path.is_relative_to(folder) for folder in libraries):
            first = False
        elif path.suffix not in (".zip", ".egg"):
            # After the standard library and installed packages, Python does not find modules of the
            # same names.
            names = _names(libraries) if first else CUSTOM
            yield path, names


def _search_path() -> list[Path]:
    return list(
        dict.fromkeys(Path(os.path.realpath(entry)) for entry in sys.path if isinstance(entry, str))
    )


def _names(libraries: Iterable[Path]) -> frozenset[str]:
    found = {*sys.stdlib_module_names, *CUSTOM}
    for folder in libraries:
        if folder.name in INSTALLED and folder.is_dir():
            # Folders such as NAME-1.0.dist-info and __pycache__ are no modules.
            found.update(
                name.partition(".")[0]
                for name in os.listdir(folder)
                if "-" not in name and "__" not in name
            )
    return frozenset(found - _NEVER)


def imported_from(folder: Path) -> frozenset[str]:
    """Return the top-level names of modules that this process has imported from a folder."""
    return frozenset(
        name
        for name, place in _imported(len(sys.modules))
        if _real(os.path.dirname(place)) == str(folder)
    )


def imported_folders() -> Iterator[Path]:
    """Yield packages imported from outside of the path, as editable installs do."""
    known = {str(path) for path in _search_path()}
    for _, place in _imported(len(sys.modules)):
        if _real(os.path.dirname(place)) not in known:
            yield Path(place)


@lru_cache(maxsize=1)
def _imported(count: int) -> list[tuple[str, str]]:
    """Return imported top-level modules, each with its file or folder.

    ``count`` is the number of loaded modules; it is the key of the cache.
    """
    found: list[tuple[str, str]] = []
    # A copy: another thread may be importing.
    for name, module in list(sys.modules.items()):
        if "." in name or name.startswith(_LOCAL):
            continue
        spec = getattr(module, "__spec__", None)
        places = list((spec and spec.submodule_search_locations) or ())
        file = getattr(module, "__file__", None)
        if not places and isinstance(file, str):
            places = [file]
        found += [(name, place) for place in places if isinstance(place, str)]
    return found


_real = lru_cache(maxsize=4096)(os.path.realpath)
