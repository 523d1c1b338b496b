"""The folders in which the commands of a line run, as ``cd`` changes them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.bashrules.allow.hazards import innermost
from forge_cli.bashrules.allow.lexer import ShellWord
from forge_cli.bashrules.allow.redirects import is_inside
from forge_cli.bashrules.allow.values import Simple
from forge_cli.bashrules.names import FileNames, is_hidden
from forge_cli.bashrules.programs.git import git_folders
from forge_cli.bashrules.programs.readers import leaves_operands_alone, makes_no_links, only_reads
from forge_cli.bashrules.programs.variables import are_harmless

IN_ANOTHER_FOLDER = "the rules are for the working directory, and it runs in another folder"
_HERE: frozenset[str | None] = frozenset({"."})
_MAX_FOLDERS = 16
_PIECES = re.compile(r"[=:,@]")


class FolderLooks(Struct, frozen=True):
    """Looks at the folders of a line, by their paths from the working directory."""

    leads_elsewhere: Callable[[str], str | None]
    """Returns why a folder may not be the one that its name says: a link, or missing."""
    may_be_repository: Callable[[str], bool]
    """Returns True if git may take the folder, or one above it in the working directory, for a
    repository of its own, whose settings it obeys."""


NO_LOOKS = FolderLooks(lambda _: None, lambda _: True)
"""The looks where files are not looked at."""


class Folders(Struct, frozen=True):
    """The folders in which a command may run; None is an unknown one.

    They are several after a ``cd`` that may fail.
    """

    possible: frozenset[str | None] = _HERE
    root: str = ""
    """The absolute path of the working directory, if it is known."""

    @property
    def moved(self) -> bool:
        return self.possible != _HERE

    def joined(self, target: str | None) -> Folders:
        """Return the folders that ``target`` names from these; None if outside of the root."""
        from_here = self.possible
        if target and self.root and f"{target}/".startswith(f"{self.root}/"):
            from_here = _HERE
            target = f".{target.removeprefix(self.root)}"
        if not target or target.startswith(("/", "-", "~")) or len(from_here) > _MAX_FOLDERS:
            return replace(self, possible=frozenset({None}))
        paths: set[str | None] = set()
        for folder in from_here:
            path = folder and posixpath.normpath(f"{folder}/{target}")
            paths.add(None if path is None or path.startswith("..") else path)
        return replace(self, possible=frozenset(paths))

    def leads_inside(self, path: str) -> bool:
        """Return True if a path that goes up stays in the root, wherever the command runs."""
        behind = path.lstrip("./")
        # only leading `..` can be added up by name: `a/../b` may pass a link
        if not path.startswith("..") or ".." in behind.split("/") or _PIECES.search(path):
            return False
        for folder in self.possible:
            joined = posixpath.normpath(f"{folder}/{path}") if folder else ".."
            if joined.startswith(".."):
                return False
        return True

    def after(self, command: Simple, looks: FolderLooks = NO_LOOKS) -> Folders:
        """Return the folders in which the next command may run.

        A ``cd`` into a folder that exists and is no link cannot fail, if it surely runs.
        """
        words = command.texts
        if "cd" not in words:
            return self
        start, _ = innermost(words, len(words))
        if words[start : start + 1] != ["cd"]:
            return self
        there = self.joined(_target(command, start))
        surely_runs = command.sure and not command.background and start == 0
        if surely_runs and not command.redirects and there.are_real(looks):
            return there
        return replace(self, possible=self.possible | there.possible)

    def are_real(self, looks: FolderLooks) -> bool:
        """Return True if every folder was looked at, exists and is no link."""
        if looks is NO_LOOKS:
            return False
        return not any(folder is None or looks.leads_elsewhere(folder) for folder in self.possible)


class CommandPlace(Struct, frozen=True):
    """The folders of one command, and the changes that earlier commands may have made."""

    writable: Sequence[str] = ()
    """Folders below which redirections may write without asking."""
    folders: Folders = Folders()
    looks: FolderLooks = NO_LOOKS
    unsure: str | None = None
    """The name of a command before this one, or beside it, that may have made links."""
    steady: bool = True
    """True if all folders still exist: the commands before this one only read."""
    in_session: bool = False
    """True if the same shell ran lines before, so that it may be in a folder of another name."""
    names: FileNames = FileNames()

    def after_lines(self, commands: Iterable[Simple]) -> CommandPlace:
        """Return the place after lines that the same shell ran before."""
        place = replace(self, steady=False)
        for command in commands:
            # those lines ran at another time, so that folders may have been made since
            place = place.after(command)
        return replace(place, steady=self.steady, in_session=True)

    def after(self, command: Simple) -> CommandPlace:
        """Return the place of the next command."""
        folders = self.folders.after(command, self.looks if self.steady else NO_LOOKS)
        unsure = self.unsure or link_maker(command)
        steady = self.steady and _leaves_folders(command)
        unchanged = (folders, unsure, steady) == (self.folders, self.unsure, self.steady)
        if unchanged:
            return self
        return replace(self, folders=folders, unsure=unsure, steady=steady)

    def leaves(self, command: Simple) -> bool:
        """Return True if the command is a ``cd`` that may lead out of the root."""
        start, _ = innermost(command.texts, len(command.texts))
        return (
            command.texts[start] == "cd"
            and None in self.folders.joined(_target(command, start)).possible
        )


def _target(command: Simple, start: int) -> str | None:
    """Return the folder that a ``cd`` at the word ``start`` names, or None if it is unknown."""
    operands = command.texts[start + 1 :]
    if operands[:1] == ["--"]:
        operands = operands[1:]
    if len(operands) != 1 or any(word.glob or word.unknown for word in command.words):
        return None
    return operands[0]


def _leaves_folders(command: Simple) -> bool:
    return not command.words or command.texts[0] == "cd" or only_reads(command.texts)


def link_maker(command: Simple) -> str | None:
    """Return the name of the command if it may make links."""
    if not (words := command.texts):
        return None
    start, why = innermost(words, len(words))
    return None if why is None and makes_no_links(words[start:]) else words[0]


def links_beside(commands: Sequence[Simple]) -> list[str | None]:
    """Return, for each command, a later one that may make links while this one runs.

    Commands of one pipeline run at the same time, and nothing waits for one in the background.
    """
    runs_beside = [command.beside < at or command.background for at, command in enumerate(commands)]
    if not any(runs_beside):
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
    """Return the command and its place as rule sets read them, or None if they do not differ.

    Harmless assignments are left out, and ``git -C FOLDER`` is git in that folder.
    """
    # Where files may be written unasked, PYTHONPATH=. could load one of them.
    if command.assigned and are_harmless(command.assigned) and not place.writable:
        return replace(command, assigned=[]), place
    return in_its_folder(command, place)


def in_its_folder(command: Simple, place: CommandPlace) -> tuple[Simple, CommandPlace] | None:
    """Return ``git -C FOLDER`` as git without it in that folder; None for any other command."""
    named = dict(git_folders(command.texts))
    if not named or any(command.words[at].glob or command.words[at].unknown for at in named):
        return None
    folders = place.folders
    for target in named.values():
        folders = folders.joined(target)
    words: list[ShellWord] = []
    for at, word in enumerate(command.words):
        if at not in named and at + 1 not in named:
            words.append(word)
    return replace(command, words=words), replace(place, folders=folders)


def folder_hazard(
    words: Sequence[str], reach: int, place: CommandPlace, *, of_set: bool = False
) -> str | None:
    """Return why a pattern of ``reach`` tokens does not cover these words in their folders.

    A rule is for the working directory. One ``of_set`` is for every folder of the project, except
    hidden ones and those of packages.
    """
    if not place.folders.moved and "-C" not in words and not place.writable:
        return None
    start, _ = innermost(list(words), len(words))
    argv = words[start:]
    if why := _operand_hazard(argv, reach - start, place.writable):
        return why
    folders = place.folders
    for at, target in git_folders(argv):
        if start + at >= reach:  # a -C in the pattern itself was approved
            folders = folders.joined(target)
    if not folders.moved:
        return None
    known = sorted(filter(None, folders.possible))
    for folder in known:
        if why := _folder_doubt(folder, argv, place):
            return why
    if place.unsure and argv[0] == "git":
        return f"{place.unsure} may have made links, so git may run in any folder"
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
    """Return why a command may run or load a file that was written without asking."""
    folders = [folder for each in writable if (folder := posixpath.normpath(each)) != "."]
    if not folders or leaves_operands_alone(argv):
        return None
    for word in argv[max(reach, 1) :]:
        paths = [posixpath.normpath(path) if path else "" for path in _paths(word)]
        for folder in folders:
            if any(path == folder or path.startswith(f"{folder}/") for path in paths):
                return f"{word} is in a folder whose files are written without asking"
    return None


def _paths(word: str) -> Iterator[str]:
    """Yield the paths that a word may name: after an option, between colons, as a module."""
    for piece in _PIECES.split(word):
        yield from (piece, piece.replace(".", "/"))
        if piece.startswith("-"):
            yield piece[2:]


def _folder_doubt(folder: str, argv: Sequence[str], place: CommandPlace) -> str | None:
    """Return why a command may do something else in a folder than in the working directory."""
    if folder == ".":
        return None
    if why := place.looks.leads_elsewhere(folder):
        return f"{folder} {why}"
    if not any(is_inside(f"{folder}/x", writable) for writable in place.writable):
        return None
    if place.looks is NO_LOOKS or place.in_session or not place.steady:
        return f"{folder} is a link, or files in it are written without asking"
    if not only_reads(argv):
        return f"{folder} has files that are written without asking, and {argv[0]} may obey them"
    # A repository is a folder with a few files, so that writing in a folder can make it one.
    if argv[0] == "git" and place.looks.may_be_repository(folder):
        return f"{folder} may be a repository that was written without asking, and git obeys it"
    return None
