"""Toolchains: folders in a hidden home that programs on PATH need."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

_MANAGERS = (
    ".pyenv",
    ".rbenv",
    ".nodenv",
    ".goenv",
    ".asdf",
    ".nvm",
    ".volta",
    ".fnm",
    ".bun",
    ".deno",
    ".sdkman",
    ".rye",
    ".cargo",
    ".rustup",
    ".ghcup",
    ".opam",
    ".juliaup",
    ".local/lib",
    ".local/share/mise",
    ".local/share/fnm",
    ".local/share/uv/python",
    ".local/share/uv/tools",
    ".local/share/pipx/venvs",
    ".local/share/pnpm",
    ".local/pipx/venvs",
    ".npm-global",
    "go/bin",
    "go/pkg",
    ".config/nvm",
    ".local/share/rtx",
)
"""Folders of version managers and installers, with nothing but programs and libraries."""
_TOGETHER = {".cargo": (".rustup",), ".local/bin": (".local/lib",), "go/bin": ("go/pkg",)}
_PROGRAMS = frozenset({"bin", "sbin", "shims", "condabin", "scripts"})
_ENVIRONMENT = ("pyvenv.cfg", "conda-meta")
_PREFIX = ("lib", "libexec", "VERSION")
_SHARED = (".", ".local", ".local/share", ".config", ".cache")
"""Folders that many programs use together."""
_OF_THE_SYSTEM = ("/usr/bin", "/usr/sbin", "/bin", "/sbin")


def find_toolchains(homes: Iterable[Path], search: str) -> Iterator[tuple[Path, Path]]:
    """Yield the folders with toolchains below each home that ``search``, a PATH, leads to.

    Each comes with its home. A link in a folder of PATH counts only if it leads into a toolchain:
    anyone may have put it there to make more visible.
    """
    homes = tuple(homes)
    for folder in _folders(search):
        real = Path(os.path.realpath(folder))
        # There may be thousands of links, so they are resolved once for all homes.
        places = {real, *_linked(real)}
        for home in homes:
            if (
                real.is_relative_to(home)
                and real != home
                and (real == folder or real.name in _PROGRAMS)
            ):
                yield home, real
            for path in _around(home, places):
                yield home, path
    # Python itself may be installed in a home that is not on PATH.
    own = set(map(Path, (sys.prefix, sys.base_prefix, os.path.realpath(sys.executable))))
    for home in homes:
        for path in _around(home, own):
            yield home, path


def links_of_path(home: Path, search: str) -> Iterator[Path]:
    """Yield the links below a home through which PATH leads."""
    for folder in _folders(search):
        for path in (folder, *folder.parents):
            if path.is_relative_to(home) and path.is_symlink():
                yield path


def _folders(search: str) -> Iterator[Path]:
    for entry in search.split(os.pathsep):
        if os.path.isabs(entry):
            yield Path(os.path.normpath(entry))


def _linked(folder: Path) -> Iterator[Path]:
    """Yield the targets of links in a folder of programs, except the system's."""
    if str(folder) in _OF_THE_SYSTEM:
        return
    try:
        with os.scandir(folder) as entries:
            yield from (Path(os.path.realpath(entry)) for entry in entries if entry.is_symlink())
    except OSError:
        return


def _around(home: Path, places: Iterable[Path]) -> Iterator[Path]:
    """Yield the toolchains below the home that contain one of the places."""
    beginning = f"{str(home).rstrip(os.sep)}/"
    folders: set[Path] = set()
    for place in places:
        if str(place).startswith(beginning) or place == home:
            folders.add(place if place.is_dir() else place.parent)
    for place in folders:
        below = f"{place.relative_to(home)}/"
        for name in (*_MANAGERS, *_TOGETHER):
            if below.startswith(f"{name}/"):
                yield from (home / one for one in (name, *_TOGETHER.get(name, ())))
        root = place.parent if place.name in _PROGRAMS else place
        if root not in [home / name for name in _SHARED] and _is_toolchain(root):
            yield root


def _is_toolchain(folder: Path) -> bool:
    """Return True for an installed environment, or a prefix with programs and libraries."""
    if not (folder / "bin").is_dir():
        return False
    # A repository with such folders is a project, not a toolchain.
    prefix = any((folder / name).exists() for name in _PREFIX) and not (folder / ".git").exists()
    return prefix or any((folder / name).exists() for name in _ENVIRONMENT)
