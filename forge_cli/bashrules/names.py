"""Names of files that are secret or protected, wherever the files are."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from msgspec import Struct

_PIECES = re.compile(r"[/=:,@]")
_GLOB = re.compile(r"[*?\[]")
_TEMPLATES = (".example", ".sample", ".template", ".dist")
_PACKAGES = frozenset({"node_modules", "site-packages", "dist-packages", "vendor"})


def is_dotenv(name: str) -> bool:
    """Return True for ``.env``, ``.env.local`` and the like, but not for ``.env.example``."""
    folded = _folded(name)
    return folded.startswith(".env") and not folded.endswith(_TEMPLATES)


def is_hidden(name: str) -> bool:
    """Return True for a name that begins with a dot, as most files that configure programs do."""
    return name.startswith(".") and name != "."


def is_of_packages(name: str) -> bool:
    """Return True for a folder of installed packages."""
    return _folded(name) in _PACKAGES


def _folded(name: str) -> str:
    """Return the name as file systems compare names: without case, trailing dots and blanks."""
    return unicodedata.normalize("NFKC", name.casefold()).rstrip(" .")


class FileNames(Struct, frozen=True):
    """The names that a program treats specially. By default, ``.env`` files are secret."""

    secrets: str = ".env"
    """The beginning of every name that ``is_secret`` accepts."""
    is_secret: Callable[[str], bool] = is_dotenv
    """Return True for the name of a file that is read only after asking."""
    is_protected: Callable[[str], bool] = is_hidden
    """Return True for a name, besides hidden ones, that is written only after asking."""
    is_of_packages: Callable[[str], bool] = is_of_packages
    """Return True for the name of a folder of packages, in which rule sets do not apply."""

    def named_secret(self, text: str, *, glob: bool = False) -> bool:
        """Return True for a word that names a file of secrets, or may become one as a glob."""
        pieces = _PIECES.split(text)
        if any(map(self.is_secret, pieces)):
            return True
        return glob and any(map(self._becomes_secret, pieces))

    def _becomes_secret(self, piece: str) -> bool:
        # a glob finds hidden names only if it begins with a dot itself
        fixed = _GLOB.split(piece)[0].lower()
        if fixed == piece.lower() or not fixed.startswith("."):
            return False
        return self.secrets.startswith(fixed) or fixed.startswith(self.secrets)

    def keep_from_writing(self, path: str) -> bool:
        """Return True for a path with a hidden or protected name in it."""
        return any(is_hidden(name) or self.is_protected(name) for name in path.split("/"))
