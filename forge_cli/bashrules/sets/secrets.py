"""Files that a command reaches without naming them: secrets, and the hooks that git runs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from forge_cli.bashrules.programs.table import program

MAX_FILES = 50_000
"""A larger tree cannot be searched in time."""
_GREP = re.compile(r"-[A-Za-z0-9]*[dRr].*|--[dr].*")
"""Options, also abbreviated; one that means something else only costs a look."""
_RG = re.compile(
    r"-[^-].*[u.].*|-[u.].*|--(?:hid|unr|no-ig|type-a).*|--type=(?:all|sh)|-[^-]*t(?:all|sh)",
    re.DOTALL,
)
_RG_GLOB = re.compile(r"-[A-Za-z]*g(.*)|--i?glob(?:=(.*))?")
_GIT = ("--no-index", "--untracked", "--no-exclude-standard")
_READS_FOLDERS = frozenset(("diff", "grep"))
"""Subcommands of git that read plain folders outside of repositories."""
_EXPANDS = re.compile(r"[{\[\\]")
_HOOKS = re.compile(
    r"^\s*(?:\[[^\]]*\]\s*)?hookspath\s*=\s*(.*?)\s*$", re.IGNORECASE | re.MULTILINE
)
_INCLUDED = re.compile(r"^\s*(?:\[[^\]]*\]\s*)?path\s*=\s*(.*?)\s*$", re.IGNORECASE | re.MULTILINE)
_MAX_INCLUDES = 16
_IGNORE_FILES = (".gitignore", ".ignore", ".rgignore")
_EXCLUDES = re.compile(
    r"^\s*(?:\[[^\]]*\]\s*)?excludesfile\s*=\s*(.*?)\s*$", re.IGNORECASE | re.MULTILINE
)


class FilesBelow(Struct, frozen=True):
    """The files below some folders, or those of them whose names fit a glob."""

    roots: tuple[str, ...] = ()
    """The folders; without any, the folder in which the command runs."""
    globs: tuple[str, ...] = ()
    deep: bool = True
    hidden: bool = True
    here: bool = True
    """True if that folder counts when there are no roots."""

    def find_secret(self, places: Iterable[Path], is_secret: Callable[[str], bool]) -> str | None:
        """Return a file of secrets among them, or why that is unknown; None if there is none."""
        seen = 0
        for place in places:
            named = [place / root for root in self.roots if os.path.isdir(place / root)]
            for folder in named or ([place] if self.here else []):
                for entry in self.walk(str(folder)):
                    seen += 1
                    if seen > MAX_FILES:
                        return f"more than {MAX_FILES:,} files, of which some may hold secrets"
                    if is_secret(entry.name) and self.fits(entry):
                        return f"{os.path.relpath(entry.path, folder)}, which may hold secrets"
        return None

    def walk(self, folder: str) -> Iterator[os.DirEntry[str]]:
        """Yield the entries below a folder, in order of their names."""
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            return
        for entry in entries:
            if entry.name == ".git" or (not self.hidden and entry.name.startswith(".")):
                continue
            yield entry
            if self.deep and entry.is_dir(follow_symlinks=False):
                yield from self.walk(entry.path)

    def fits(self, entry: os.DirEntry[str]) -> bool:
        """Return True for a file whose name fits a glob."""
        if entry.is_dir(follow_symlinks=False):
            return False
        if not self.globs:
            return True
        name = entry.name.lower()
        for glob in self.globs:
            end = glob.rsplit("/", 1)[-1]
            # brackets and braces differ between tools: any name may fit
            if _EXPANDS.search(end) or fnmatchcase(name, end.lower()):
                return True
        return False


def hidden_reads(
    words: Sequence[str], names: Iterable[str], places: Iterable[Path], *, held: bool, checked: bool
) -> FilesBelow | None:
    """Return the files that a command reads without naming them; None if it skips hidden files.

    ``names`` are those of its words that may be paths, ``places`` the folders in which it may run.
    Unless it is ``held`` to reading, ignore files may let a search read hidden files; if
    ``checked``, they are read.
    """
    folders = tuple(names)
    match program(words[0]):
        case "grep" | "egrep" | "fgrep" | "zgrep" if any(map(_GREP.fullmatch, words[1:])):
            return FilesBelow(folders, tuple(_values(words, "--include")))
        case "rg":
            globs = tuple(glob for glob in _rg_globs(words) if not glob.startswith("!"))
            if globs or any(map(_RG.fullmatch, words[1:])):
                return FilesBelow(folders, globs)
            if held:
                return None
            if not checked or os.environ.get("RIPGREP_CONFIG_PATH"):  # a file with options
                return FilesBelow(folders)
            unhidden = unhidden_globs(folders, places)
            return FilesBelow(folders, unhidden) if unhidden else None
        case "diff":
            return FilesBelow(folders, here=any("$" in word for word in words))
        case "git" if any(map(_leaves_index, words)):
            return FilesBelow(folders)
        case "git" if not _READS_FOLDERS.isdisjoint(words) and _leaves_repository(folders, places):
            return FilesBelow(folders, here=not folders)
    return None


def unhidden_globs(names: Iterable[str], places: Iterable[Path]) -> tuple[str, ...]:
    """Return globs for the names that ignore files bring back into a search of ripgrep.

    Ripgrep skips hidden files, except those for which an ignore file has a line with ``!``.
    """
    found: dict[str, None] = {}
    for place in places:
        home = Path.home()
        configured = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        files = [configured / "git/ignore", configured / "ripgrep/ignore"]
        settings = [home / ".gitconfig", configured / "git/config", Path("/etc/gitconfig")]
        for above in (place, *place.parents):
            files += [above / name for name in _IGNORE_FILES]
            files.append(above / ".git/info/exclude")
            settings.append(above / ".git/config")
        for file in settings:
            files += [_placed(value, home) for value in _EXCLUDES.findall(_read(file))]
        named = [str(place / name) for name in names if os.path.isdir(place / name)]
        for folder in named or [str(place)]:
            for count, entry in enumerate(FilesBelow().walk(folder)):
                if count > MAX_FILES:
                    return ("*",)
                if entry.name in _IGNORE_FILES:
                    files.append(Path(entry.path))
        for file in files:
            for line in _read(file).splitlines():
                if line.startswith("!"):
                    found[line[1:].strip().rstrip("/") or "*"] = None
    return tuple(found)


def _leaves_index(word: str) -> bool:
    """Return True for an option, or its abbreviation, by which git reads untracked files."""
    return len(word) > len("--x") and any(option.startswith(word) for option in _GIT)


def _leaves_repository(names: Sequence[str], places: Iterable[Path]) -> bool:
    """Return True if git may run outside of a repository, or is given a path outside."""
    for place in places:
        around = (folder for folder in (place, *place.parents) if _is_repository(folder / ".git"))
        root = next(around, None)
        if root is None:
            return True
        real_root = os.path.realpath(root)
        for name in names:
            path = os.path.realpath(place / name)
            if os.path.commonpath([real_root, path]) != real_root:
                return True
    return False


def _is_repository(path: Path) -> bool:
    return path.is_file() or ((path / "HEAD").exists() and (path / "objects").is_dir())


def _values(words: Sequence[str], option: str) -> Iterator[str]:
    for word, after in pairwise((*words, "")):
        name, equals, value = word.partition("=")
        if name == option:
            yield value if equals else after


def _rg_globs(words: Sequence[str]) -> Iterator[str]:
    """Yield the globs of ``-g``, which bring back hidden files that they fit."""
    for word, after in pairwise((*words, "")):
        if found := _RG_GLOB.fullmatch(word):
            yield found[1] or found[2] or after


def hook_folders(workspace: Path) -> Iterator[Path]:
    """Yield the folders that git's settings name for hooks, of the repository and the user."""
    around = (workspace, *workspace.parents)
    root = next((folder for folder in around if os.path.lexists(folder / ".git")), None)
    if root is None:
        return
    todo = list(_settings(root))
    seen: set[Path] = set()
    while todo and len(seen) < _MAX_INCLUDES:
        file = todo.pop()
        if file in seen:
            continue
        seen.add(file)
        text = _read(file)
        todo += [_placed(value, file.parent) for value in _INCLUDED.findall(text)]
        for value in _HOOKS.findall(text):
            yield _placed(value, root)


def _settings(root: Path) -> Iterator[Path]:
    """Yield the files with settings that apply in a repository."""
    folder = root / ".git"
    if folder.is_file():
        # a linked worktree or a submodule: the file names the real folder
        folder = _placed(_read(folder).partition("gitdir:")[2].strip(), root)
    common = _placed(_read(folder / "commondir").strip() or ".", folder)
    yield from (common / "config", folder / "config", folder / "config.worktree")
    home = Path.home()
    configured = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    yield from (home / ".gitconfig", configured / "git/config", Path("/etc/gitconfig"))


def _placed(value: str, folder: Path) -> Path:
    return folder / os.path.expanduser(value.strip('"'))


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return ""
