"""The folders of a line's commands: a rule is for the working directory, and ``cd`` changes what its words name."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.bashrules.allow.hazards import innermost
from forge_cli.bashrules.allow.redirects import is_inside
from forge_cli.bashrules.allow.values import Simple
from forge_cli.bashrules.names import FileNames, is_hidden
from forge_cli.bashrules.programs.git import git_folders
from forge_cli.bashrules.programs.readers import leaves_operands_alone, makes_no_links, only_reads
from forge_cli.bashrules.programs.variables import are_harmless

IN_ANOTHER_FOLDER = "the rules are for the working directory, and it runs in another folder"
_FOLDERS_AT_MOST = 16
_PIECES = re.compile(r"[=:,@]")


def no_links(_: str) -> bool:
    """The answer where the files are not looked at."""
    return False


class Folders(Struct, frozen=True):
    """The folders in which a command may run: several, because a ``cd`` can fail; None for one that is not known."""

    possible: frozenset[str | None] = frozenset({"."})
    root: str = ""
    """The absolute path of the working directory, where it is known."""

    @property
    def moved(self) -> bool:
        return self.possible != {"."}

    def joined(self, target: str | None) -> Folders:
        """The folders that ``target`` names in these; None for one outside the working directory."""
        from_here = self.possible
        if target and self.root and f"{target}/".startswith(f"{self.root}/"):
            from_here, target = frozenset({"."}), f".{target.removeprefix(self.root)}"
        if not target or target.startswith(("/", "-", "~")) or len(from_here) > _FOLDERS_AT_MOST:
            return replace(self, possible=frozenset({None}))
        paths = (folder and posixpath.normpath(f"{folder}/{target}") for folder in from_here)
        return replace(
            self,
            possible=frozenset(
                None if path is None or path.startswith("..") else path for path in paths
            ),
        )

    def leads_inside(self, path: str) -> bool:
        """Whether a path that goes up first stays in the working directory, wherever the command may run."""
        behind = path.lstrip("./")
        if not path.startswith("..") or ".." in behind.split("/") or _PIECES.search(path):
            return False
        joined = (
            posixpath.normpath(f"{folder}/{path}") if folder else ".." for folder in self.possible
        )
        return not any(each.startswith("..") for each in joined)

    def after(self, command: Simple, is_link: Callable[[str], bool] = no_links) -> Folders:
        """The folders in which the next command may run; a ``cd`` that surely runs does not fail in a real folder."""
        words = command.texts
        start, _ = innermost(words, len(words)) if "cd" in words else (0, None)
        if words[start : start + 1] != ["cd"]:
            return self
        there = self.joined(_target(command, start))
        looked = is_link is not no_links and not any(
            folder is None or is_link(folder) for folder in there.possible
        )
        sure = (
            command.sure
            and not command.background
            and not command.redirects
            and start == 0
            and looked
        )
        return there if sure else replace(self, possible=self.possible | there.possible)


class CommandPlace(Struct, frozen=True):
    """The folder of one command, the folders that may be written to unasked, and whether a folder may be a link."""

    writable: Sequence[str] = ()
    folders: Folders = Folders()
    is_link: Callable[[str], bool] = no_links
    unsure: str | None = None
    """A command before this one, or beside it, that may have made links of what were files and folders."""
    steady: bool = True
    """Whether every folder is still there: the commands before this one only read."""
    names: FileNames = FileNames()

    def after_lines(self, commands: Iterable[Simple]) -> CommandPlace:
        """The folder of a line, behind those that the same shell ran before: a folder may have been made since."""
        place = replace(self, steady=False)
        for command in commands:
            place = place.after(command)
        return replace(place, steady=self.steady)

    def after(self, command: Simple) -> CommandPlace:
        """The folder of the next command."""
        folders = self.folders.after(command, self.is_link if self.steady else no_links)
        unsure = self.unsure or link_maker(command)
        steady = self.steady and _leaves_folders(command)
        unchanged = (folders, unsure, steady) == (self.folders, self.unsure, self.steady)
        return self if unchanged else replace(self, folders=folders, unsure=unsure, steady=steady)

    def leaves(self, command: Simple) -> bool:
        """May the command be a ``cd`` that leads out of the working directory?"""
        start, _ = innermost(command.texts, len(command.texts))
        return (
            command.texts[start] == "cd"
            and None in self.folders.joined(_target(command, start)).possible
        )


def _target(command: Simple, start: int) -> str | None:
    """The folder that a ``cd`` at the word ``start`` names, where that is known."""
    operands = command.texts[start + 1 :]
    operands = operands[1:] if operands[:1] == ["--"] else operands
    known = len(operands) == 1 and not any(word.glob or word.unknown for word in command.words)
    return operands[0] if known else None


def _leaves_folders(command: Simple) -> bool:
    return not command.words or command.texts[0] == "cd" or only_reads(command.texts)


def link_maker(command: Simple) -> str | None:
    """The name of the command if it may make links."""
    if not (words := command.texts):
        return None
    start, why = innermost(words, len(words))
    return None if why is None and makes_no_links(words[start:]) else words[0]


def links_beside(commands: Sequence[Simple]) -> list[str | None]:
    """For each command, one behind it in the line that may make links and does not wait for it."""
    if not any(
        command.background or command.beside < place for place, command in enumerate(commands)
    ):
        return [None] * len(commands)
    found: list[str | None] = []
    pipeline = len(commands)
    in_pipeline = None
    later = None
    for place in reversed(range(len(commands))):
        command = commands[place]
        if pipeline <= place:
            found.append(in_pipeline)
        else:
            found.append(later if command.background else None)
        if name := link_maker(command):
            later = name
            if command.beside < min(place, pipeline):
                pipeline, in_pipeline = command.beside, name
    return found[::-1]


def reading_for_sets(command: Simple, place: CommandPlace) -> tuple[Simple, CommandPlace] | None:
    """The command and its place as rule sets take them: without harmless assignments, or ``git -C``."""
    if command.assigned and are_harmless(command.assigned) and not place.writable:
        return replace(command, assigned=[]), place
    return in_its_folder(command, place)


def in_its_folder(command: Simple, place: CommandPlace) -> tuple[Simple, CommandPlace] | None:
    """``git -C FOLDER`` as git without it, in that folder; None for any other command."""
    named = dict(git_folders(command.texts))
    if not named or any(command.words[at].glob or command.words[at].unknown for at in named):
        return None
    folders = place.folders
    for target in named.values():
        folders = folders.joined(target)
    words = [
        word for at, word in enumerate(command.words) if at not in named and at + 1 not in named
    ]
    return replace(command, words=words), replace(place, folders=folders)


def folder_hazard(
    words: Sequence[str], reach: int, place: CommandPlace, *, of_set: bool = False
) -> str | None:
    """Why a pattern of ``reach`` tokens does not cover these words in the folders where they may run.

    One ``of_set`` is for every folder of the project, but for those of packages and hidden ones.
    """
    if not place.folders.moved and "-C" not in words and not place.writable:
        return None
    start, _ = innermost(list(words), len(words))
    argv = words[start:]
    if why := _operand_hazard(argv, reach - start, place.writable):
        return why
    folders = place.folders
    for at, target in git_folders(argv):
        folders = folders if start + at < reach else folders.joined(target)
    if not folders.moved:
        return None
    known = sorted(filter(None, folders.possible))
    if doubtful := next((folder for folder in known if _is_doubtful(folder, place)), None):
        return f"{doubtful} is a link, or a folder whose files are written without asking"
    if place.unsure and argv[0] == "git":
        return f"{place.unsure} may have made links, so that it may run in any folder"
    if None in folders.possible:
        return "it may run in any folder, and the rules are for the working directory"
    if only_reads(argv):
        return None
    if of_set and not place.unsure and all(_is_of_project(folder, place.names) for folder in known):
        return None
    return IN_ANOTHER_FOLDER


def _is_of_project(folder: str, names: FileNames) -> bool:
    return not any(names.is_of_packages(part) or is_hidden(part) for part in folder.split("/"))


def _operand_hazard(argv: Sequence[str], reach: int, writable: Sequence[str]) -> str | None:
    """Why a command may run or load a file that was written without asking."""
    folders = [folder for each in writable if (folder := posixpath.normpath(each)) != "."]
    if not folders or leaves_operands_alone(argv):
        return None
    for word in argv[max(reach, 1) :]:
        for path in _paths(word):
            if any(_is_in(path, folder) for folder in folders):
                return f"{word} is in a folder whose files are written without asking"
    return None


def _paths(word: str) -> Iterator[str]:
    """The paths that a word may name: behind an option, between colons, as a module with dots."""
    for piece in _PIECES.split(word):
        yield from (piece, piece.replace(".", "/"))
        if piece.startswith("-"):
            yield piece[2:]


def _is_in(path: str, folder: str) -> bool:
    path = posixpath.normpath(path) if path else ""
    return path == folder or path.startswith(f"{folder}/")


def _is_doubtful(folder: str, place: CommandPlace) -> bool:
    if folder == ".":
        return False
    return any(is_inside(f"{folder}/x", writable) for writable in place.writable) or place.is_link(
        folder
    )
