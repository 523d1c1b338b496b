"""The folder in which a line runs, and the files that it may touch there."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from forge_cli.bashrules.names import FileNames


class FileUse(Struct, frozen=True):
    """A file that a redirection opens, by its path from the working directory."""

    path: str
    writes: bool


def _hides_nothing(_: Path) -> bool:
    return False


class Place(Struct, frozen=True):
    """A working directory and its surroundings. Without a folder, no file is looked at."""

    folder: Path | None = None
    readable: Sequence[Path] = ()
    """Other folders in which rule sets let files be read."""
    written: Sequence[Path] = ()
    """Folders in which redirections may write without asking."""
    held: bool = False
    """True if a sandbox or the like limits lines to what the rule sets promise."""
    names: FileNames = FileNames()
    hides: Callable[[Path], bool] = _hides_nothing
    """Return True for a real path that may not be read, besides files of secrets."""

    @property
    def writable(self) -> list[str]:
        """The folders in the working directory in which a redirection may write unasked."""
        if self.folder is None:
            return [str(folder) for folder in self.written]
        inside = [folder for folder in self.written if folder.is_relative_to(self.folder)]
        return [str(folder.relative_to(self.folder)) for folder in inside]

    def is_link(self, folder: str) -> bool:
        """Return True if a folder is reached through a link, or does not exist yet."""
        if self.folder is None:
            return False
        path = self.folder / folder
        return not os.path.isdir(path) or path.resolve() != self.folder.resolve() / folder
