"""The folder in which a line runs, and the files that it may touch there."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from forge_cli.bashrules.allow.folders import FolderLooks
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

    @property
    def looks(self) -> FolderLooks:
        """Looks at folders below the working directory."""
        return FolderLooks(self.leads_elsewhere, self.may_be_repository)

    def leads_elsewhere(self, folder: str) -> str | None:
        """Return why a folder may not be the one that its name says; None if it is."""
        if self.folder is None:
            return None
        path = self.folder / folder
        if not os.path.lexists(path):
            return "does not exist"
        if not os.path.isdir(path):
            return "is not a folder"
        if path.resolve() != self.folder.resolve() / folder:
            return "is a link, or is reached through one"
        return None

    def may_be_repository(self, folder: str) -> bool:
        """Return True if git may find a repository in a folder, before the working directory.

        A file ``HEAD`` is not required, because the same line may write it.
        """
        if self.folder is None:
            return True
        path = self.folder
        for part in Path(folder).parts:
            path /= part
            is_bare = os.path.lexists(path / "objects") and os.path.lexists(path / "refs")
            if is_bare or os.path.lexists(path / ".git"):
                return True
        return False
