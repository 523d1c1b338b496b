"""Protected names: files that make somebody's next command do something else, and files that hold secrets."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from forge_cli.sandbox.files.place import Place
from forge_cli.sandbox.files.secret import DOT_ENV
from forge_cli.sandbox.names import folded

FOLDERS = frozenset({".git", ".forge"})
"""What lies in a folder of such a name is protected with it."""
_MCP = frozenset({".mcp.json", "mcp.json"})
_BASH = frozenset({".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc"})
_ZSH = frozenset({".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout"})
_OTHER_SHELLS = frozenset({".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login", ".logout", "config.fish"})
_NAMES = FOLDERS | _MCP | _BASH | _ZSH | _OTHER_SHELLS


def is_secret(name: str) -> bool:
    """Whether a file of that name is read only after asking; a search skips it."""
    return folded(name).startswith(DOT_ENV)


def is_protected(name: str) -> bool:
    """Whether a file or folder of that name is written or deleted only after asking, wherever it is."""
    return is_secret(name) or folded(name) in _NAMES


def secret_in(place: Place) -> str | None:
    """The name on the way to a place, or of a link that led there, that may hold secrets."""
    return next((name for name in _names(place) if is_secret(name)), None)


def protected_in(place: Place) -> str | None:
    """The name on the way to a place, or of a link that led there, that is protected."""
    around = (*place.zone.root.parts, *(name for link in place.links for name in link.parts))
    folders = (name for name in around if folded(name) in FOLDERS)
    return next((name for name in _names(place) if is_protected(name)), None) or next(folders, None)


def _names(place: Place) -> Iterator[str]:
    yield from place.parts
    yield from (link.name for link in place.links)


class OwnFiles:
    """The worker's own files: whoever may change them may change what the worker is allowed to do."""

    def __init__(self, paths: Iterable[Path]) -> None:
        given = [Path(os.path.abspath(path)) for path in paths]
        real = [Path(os.path.realpath(path)) for path in given]
        self._paths = tuple(dict.fromkeys((*given, *real)))
        self._folded = {tuple(map(folded, path.parts)) for path in self._paths}

    def __contains__(self, place: Place) -> bool:
        ways = [tuple(map(folded, path.parts)) for path in (place.real, *place.links)]
        if any(way[: len(own)] == own for way in ways for own in self._folded):
            return True
        return place.info is not None and any(self._is(path, place.info) for path in self._paths)

    @staticmethod
    def _is(path: Path, info: os.stat_result) -> bool:
        try:
            return os.path.samestat(os.stat(path), info)
        except OSError:
            return False
