"""Where the commands of a line run: a rule is for the working directory, and ``cd`` changes what its words name."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence

from forge_cli.core.values import dataclass
from forge_cli.toolsets.shell.allow.hazards import innermost
from forge_cli.toolsets.shell.allow.parser import Simple
from forge_cli.toolsets.shell.allow.redirects import is_inside
from forge_cli.toolsets.shell.programs.git import git_folders
from forge_cli.toolsets.shell.programs.names import below
from forge_cli.toolsets.shell.programs.readers import only_reads

_FOLDERS_AT_MOST = 16


def no_links(_: str) -> bool:
    """The answer where nobody looks at the files."""
    return False


@dataclass(frozen=True)
class Folders:
    """The folders in which a command may run: several, because a ``cd`` can fail; None for one that nobody knows."""

    possible: frozenset[str | None] = frozenset({"."})

    @property
    def moved(self) -> bool:
        return self.possible != {"."}

    def joined(self, target: str | None) -> Folders:
        """The folders that ``target`` names in these."""
        if target is None or not below(target) or len(self.possible) > _FOLDERS_AT_MOST:
            return Folders(frozenset({None}))
        return Folders(frozenset(folder and posixpath.normpath(f"{folder}/{target}") for folder in self.possible))

    def after(self, command: Simple) -> Folders:
        """The folders in which the next command may run."""
        words = [word.text for word in command.words]
        start, _ = innermost(words, len(words)) if "cd" in words else (0, None)
        if words[start : start + 1] != ["cd"]:
            return self
        operands = [word for word in words[start + 1 :] if word != "--"]
        known = len(operands) == 1 and not any(word.glob for word in command.words)
        return Folders(self.possible | self.joined(operands[0] if known else None).possible)


@dataclass(frozen=True)
class CommandPlace:
    """Where one command runs, the folders that may be written to unasked, and whether a folder may be a link."""

    writable: Sequence[str] = ()
    folders: Folders = Folders()
    is_link: Callable[[str], bool] = no_links


def folder_hazard(words: Sequence[str], reach: int, place: CommandPlace) -> str | None:
    """Why a pattern of ``reach`` tokens does not cover these words in the folders where they may run."""
    if not place.folders.moved and "-C" not in words:
        return None
    start, _ = innermost(list(words), len(words))
    argv = words[start:]
    folders = place.folders
    for at, target in git_folders(argv):
        folders = folders if start + at < reach else folders.joined(target)
    if not folders.moved:
        return None
    if doubtful := next((folder for folder in folders.possible if _is_doubtful(folder, place)), None):
        return f"{doubtful} is a link, or a folder whose files are written without asking"
    if None in folders.possible:
        return "it may run in any folder, and the rules are for the working directory"
    return None if only_reads(argv) else "the rules are for the working directory, and it runs in another folder"


def _is_doubtful(folder: str | None, place: CommandPlace) -> bool:
    if folder is None or folder == ".":
        return False
    return any(is_inside(f"{folder}/x", writable) for writable in place.writable) or place.is_link(folder)
