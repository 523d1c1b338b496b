"""Files that commands reach and no word names: those of secrets, behind links, and the hooks that git runs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from forge_cli.sandbox.protected import is_secret
from forge_cli.toolsets.shell.programs.table import program

FILES_AT_MOST = 50_000
"""A larger tree cannot be searched in time."""
_GREP = re.compile(r"-[A-Za-z0-9]*[dRr].*|--[dr].*")
"""Options may be abbreviated; one that means something else only costs a look."""
_RG = re.compile(r"-[^-].*[u.].*|-[u.].*|--(?:hid|unr|no-ig|type-a).*|--type=(?:all|sh)|-[^-]*t(?:all|sh)", re.DOTALL)
_IGNORES = (".ignore", ".rgignore", ".gitignore")
_TAKEN_BACK = re.compile(r"^!(.*?)\s*$", re.MULTILINE)
"""The patterns by which such a file takes names back, hidden ones as well."""
_RG_GLOB = re.compile(r"-[A-Za-z]*g(.*)|--i?glob(?:=(.*))?")
_LINKS = {
    "grep egrep fgrep zgrep": r"-[A-Za-z0-9]*R.*|--de.*",
    "rg fd fdfind": r"-[^-]*L.*|--fol.*",
    "ls dir du": r"-[A-Za-z0-9]*L.*|--deref.*",
    "find": r"-L|-follow",
    "tree": r"-[A-Za-z]*l.*",
    "diff": r"-[A-Za-z0-9]*r.*|--rec.*",
}
"""Options with which a program goes on behind the links that it meets."""
_FOLLOWS = {name: re.compile(options) for programs, options in _LINKS.items() for name in programs.split()}
_GIT = ("--no-index", "--untracked", "--no-exclude-standard")
_READS_FOLDERS = frozenset(("diff", "grep"))
"""Subcommands of git that read plain folders outside of a repository."""
_EXPANDS = re.compile(r"[{\[\\]")
_ODD_NAME = re.compile(r"[-@(!~+].*|.*[\s\x00-\x1f'\"\\*?\[$`].*", re.DOTALL)
"""A name that a program or the shell may take for something else: an option, several words, a glob."""

_HOOKS = re.compile(r"^\s*(?:\[[^\]]*\]\s*)?hookspath\s*=\s*(.*?)\s*$", re.IGNORECASE | re.MULTILINE)
_INCLUDED = re.compile(r"^\s*(?:\[[^\]]*\]\s*)?path\s*=\s*(.*?)\s*$", re.IGNORECASE | re.MULTILINE)
_INCLUDES_AT_MOST = 16


class FilesBelow(Struct, frozen=True):
    """The files below some folders whose names fit one of the globs, or all of them."""

    roots: tuple[str, ...] = ()
    """The paths, or else the folder in which the command runs."""
    globs: tuple[str, ...] = ()
    deep: bool = True
    hidden: bool = True
    here: bool = True
    """Whether it is that folder where the roots are none."""

    def find_secret(self, places: Iterable[Path]) -> str | None:
        """A file of secrets among them, or why that is not known."""
        return self._first(places, lambda entry, _: is_secret(entry.name))

    def find_way_out(self, places: Iterable[Path]) -> str | None:
        """A link that leads elsewhere than to what is below the same folder, or to a file of secrets."""
        found = self._first(places, _leads_out)
        return f"what is behind {found}" if found else None

    def find_whitelisted_secret(self, places: Sequence[Path]) -> str | None:
        """A file of secrets that a search reads, because a file beside or above it takes its name back."""
        above = (folder for place in places for folder in (place, *place.parents))
        globs = [
            glob for folder in above for name in (*_IGNORES, ".git/info/exclude") for glob in _whitelist(folder / name)
        ]
        secrets: list[str] = []

        def look(entry: os.DirEntry[str], _: str) -> bool:
            if entry.name in _IGNORES:
                globs.extend(_whitelist(Path(entry.path)))
            elif is_secret(entry.name):
                secrets.append(entry.name)
            return False

        if too_many := self._first(places, look):
            return too_many
        taken = (name for name in secrets for glob in globs if _EXPANDS.search(glob) or _fits_glob(name, glob))
        name = next(taken, None)
        return name and f"{name}, which may hold secrets and is no longer ignored"

    def find_odd(self, places: Sequence[Path], may_read: Callable[[str], bool]) -> str | None:
        """One that is not a plain name of a file that may be read."""

        roots = [place / root for place in places for root in self.roots]
        if outside := next((root for root in roots if not may_read(os.path.realpath(root))), None):
            return f"{outside.name}, which leads out of the zones"

        def is_odd(entry: os.DirEntry[str], _: str) -> bool:
            leads_out = entry.is_symlink() and not may_read(os.path.realpath(entry.path))
            return leads_out or is_secret(entry.name) or _ODD_NAME.fullmatch(entry.name) is not None

        return self._first(places, is_odd, folders=True)

    def _first(
        self, places: Iterable[Path], found: Callable[[os.DirEntry[str], str], bool], *, folders: bool = False
    ) -> str | None:
        seen = 0
        for place in places:
            named = [place / root for root in self.roots if (place / root).is_dir()]
            for folder in named or ([place] if self.here else []):
                for entry in self._walk(str(folder)):
                    seen += 1
                    if seen > FILES_AT_MOST:
                        return f"more than {FILES_AT_MOST:,} files, of which some may hold secrets"
                    is_folder = entry.is_dir(follow_symlinks=False)
                    fits = (folders or not is_folder) and ((is_folder and self.deep) or self._fits(entry.name))
                    if fits and found(entry, str(folder)):
                        secret = ", which may hold secrets" if is_secret(entry.name) else ""
                        return f"{os.path.relpath(entry.path, folder)}{secret}"
        return None

    def _walk(self, folder: str) -> Iterator[os.DirEntry[str]]:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            return
        for entry in entries:
            if entry.name == ".git" or (not self.hidden and entry.name.startswith(".")):
                continue
            yield entry
            if self.deep and entry.is_dir(follow_symlinks=False):
                yield from self._walk(entry.path)

    def _fits(self, name: str) -> bool:
        ends = [glob.rsplit("/", 1)[-1] for glob in self.globs]
        return not ends or any(_EXPANDS.search(end) or _fits_glob(name, end) for end in ends)


def hidden_reads(words: Sequence[str], names: Iterable[str], places: Iterable[Path]) -> FilesBelow | None:
    """Files that a command reads and no word names; None where it skips hidden files, or reads none.

    ``names`` are those of its words that may be paths, ``places`` the folders in which it may run.
    """
    folders = tuple(names)
    match program(words[0]):
        case "grep" | "egrep" | "fgrep" | "zgrep" if any(map(_GREP.fullmatch, words[1:])):
            return FilesBelow(folders, tuple(_values(words, "--include")))
        case "rg":
            globs = tuple(glob for glob in _rg_globs(words) if not glob.startswith("!"))
            return FilesBelow(folders, globs) if globs or any(map(_RG.fullmatch, words[1:])) else None
        case "diff":
            return FilesBelow(folders, here=any("$" in word for word in words))
        case "git" if any(len(word) > 3 and option.startswith(word) for word in words for option in _GIT):
            return FilesBelow(folders)
        case "git" if not _READS_FOLDERS.isdisjoint(words) and _leaves_repository(folders, places):
            return FilesBelow(folders, here=not folders)
    return None


def _leaves_repository(names: Sequence[str], places: Iterable[Path]) -> bool:
    """Whether a command of git may be outside of a repository, or is given a path that is."""
    for place in places:
        around = (folder for folder in (place, *place.parents) if _is_repository(folder / ".git"))
        root = next(around, None)
        if root is None:
            return True
        paths = (os.path.realpath(place / name) for name in names)
        if any(os.path.commonpath([os.path.realpath(root), path]) != os.path.realpath(root) for path in paths):
            return True
    return False


def _is_repository(path: Path) -> bool:
    return path.is_file() or ((path / "HEAD").exists() and (path / "objects").is_dir())


def searches_quietly(words: Sequence[str], names: Iterable[str]) -> FilesBelow | None:
    """Folders that a command searches but for hidden files, unless an ignore file takes these back."""
    return FilesBelow(tuple(names)) if program(words[0]) in ("rg", "fd", "fdfind") else None


def followed(words: Sequence[str], names: Iterable[str]) -> FilesBelow | None:
    """Folders in which a command goes on behind every link that it meets; None where it does not."""
    follows = _FOLLOWS.get(program(words[0]))
    return FilesBelow(tuple(names)) if follows and any(map(follows.fullmatch, words[1:])) else None


def _leads_out(entry: os.DirEntry[str], folder: str) -> bool:
    if not entry.is_symlink():
        return False
    root, real = os.path.realpath(folder), os.path.realpath(entry.path)
    return os.path.commonpath([root, real]) != root or is_secret(os.path.basename(real))


def _whitelist(file: Path) -> list[str]:
    """The last names in the patterns that a file for searches takes back."""
    return [found.rstrip("/").rpartition("/")[2] for found in _TAKEN_BACK.findall(_read(file))]


def _fits_glob(name: str, glob: str) -> bool:
    return fnmatchcase(name.lower(), glob.lower())


def _values(words: Sequence[str], option: str) -> Iterator[str]:
    for word, after in pairwise((*words, "")):
        name, equals, value = word.partition("=")
        if name == option:
            yield value if equals else after


def _rg_globs(words: Sequence[str]) -> Iterator[str]:
    """A glob brings hidden files back that it fits."""
    for word, after in pairwise((*words, "")):
        if found := _RG_GLOB.fullmatch(word):
            yield found[1] or found[2] or after


def hook_folders(workspace: Path) -> Iterator[Path]:
    """The folders that git's settings name for hooks, of the repository around a folder and of the user."""
    root = next((folder for folder in (workspace, *workspace.parents) if os.path.lexists(folder / ".git")), None)
    if root is None:
        return
    todo, seen = list(_settings(root)), set[Path]()
    while todo and len(seen) < _INCLUDES_AT_MOST:
        file = todo.pop()
        if file in seen:
            continue
        seen.add(file)
        text = _read(file)
        todo += [_placed(value, file.parent) for value in _INCLUDED.findall(text)]
        yield from (_placed(value, root) for value in _HOOKS.findall(text))


def _settings(root: Path) -> Iterator[Path]:
    """The files with settings that hold in a repository."""
    folder = root / ".git"
    if folder.is_file():
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
