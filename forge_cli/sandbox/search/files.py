"""The files that a search reads, what it leaves out like git, and listings of folders."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from forge_cli.core.errors import ToolError
from forge_cli.core.media import DisplayHints
from forge_cli.core.results import FileList
from forge_cli.sandbox.files.operations import FileOperations, ListedName
from forge_cli.sandbox.git.ignore_rules import IGNORE_FILE, IgnoreLevel
from forge_cli.sandbox.globs import BadGlob, expand_braces, glob_expression, match_any
from forge_cli.sandbox.names import shown, unusable

SIZE_MAX = 10 * 1024 * 1024
"""The largest file, in bytes, that is searched."""
LARGE = "large"
UNREADABLE = "unreadable"
_BATCH_BYTES = 256 * 1024
"""Bytes of the paths in one batch, since they become arguments of a program."""
_BATCH_NAMES = 10_000
"""Names that are examined for one batch, so that an abandoned walk ends soon."""
MAX_SEEN = 20_000
_CLOSED = frozenset({".git"})


class FileBatch(Struct, frozen=True):
    """Files to search, as paths below the zone's root, and reasons for leaving others out."""

    files: list[bytes] = field(default_factory=list)
    left_out: list[tuple[str, bytes]] = field(default_factory=list)


class SearchStart(Struct, frozen=True):
    """The start of a search: a file or folder below the root of a zone."""

    root: Path
    below: str = ""
    is_file: bool = False
    hidden: Mapping[Path, Collection[str]] = field(default_factory=dict)
    """The names in each folder that are not searched."""


class Include(Struct, frozen=True):
    """A filter for paths below the start of a search: a glob, or everything."""

    paths: re.Pattern[str] | None = None

    @classmethod
    def parse(cls, include: str) -> Include:
        """Parse a glob; one without a slash matches names at any depth."""
        text = include.strip().removeprefix("./")
        problem = unusable(text)
        if problem is None and text.startswith("!"):
            problem = "excludes files; name the files to search"
        if problem:
            raise ToolError(f"include {shown(include)} {problem}")
        try:
            return cls(match_any(glob_expression(_whole(each)) for each in expand_braces(text)))
        except BadGlob as error:
            raise ToolError(
                f"include {shown(include)} is not a glob: {error}; try '*.py' or 'src/**/*.ts'"
            ) from None

    def takes(self, path: bytes) -> bool:
        return self.paths is None or self.paths.fullmatch(os.fsdecode(path)) is not None


def _whole(glob: str) -> str:
    if glob.endswith("/"):
        glob = f"{glob}**"
    if "/" in glob:
        return glob.removeprefix("/")
    return f"**/{glob}"


class FileWalk:
    """The files below a start, sorted by name, without links."""

    def __init__(self, start: SearchStart, include: Include) -> None:
        self._root = os.fsencode(start.root)
        self._start = os.fsencode(start.below)
        self._is_file = start.is_file
        self._hidden = {
            os.fsencode(place): set(map(os.fsencode, names))
            for place, names in start.hidden.items()
        }
        self._include = include
        self._left_out: list[tuple[str, bytes]] = []
        self._seen = 0

    def batches(self) -> Iterator[FileBatch]:
        """Yield batches of files; at least one."""
        files: list[bytes] = []
        size = 0
        for path in self._files():
            if path:
                files.append(path)
                size += len(path)
            if size > _BATCH_BYTES or self._seen > _BATCH_NAMES:
                yield FileBatch(files, self._left_out)
                files = []
                size = 0
                self._left_out = []
                self._seen = 0
        yield FileBatch(files, self._left_out)

    def _files(self) -> Iterator[bytes | None]:
        """Yield each file, and None for every listed folder."""
        if self._is_file:
            if self._is_searched(
                self._start, Path(os.fsdecode(os.path.join(self._root, self._start)))
            ):
                yield self._start
            return
        pending = [(self._start, True, IgnoreLevel.above_folder(self._root, self._start))]
        while pending:
            path, is_folder, level = pending.pop()
            if is_folder:
                pending += self._inside(path, level)
                yield None
            else:
                yield path

    def _inside(self, folder: bytes, level: IgnoreLevel) -> list[tuple[bytes, bool, IgnoreLevel]]:
        """Return the files and folders to visit in a folder, the last name first."""
        place = os.path.join(self._root, folder) if folder else self._root
        try:
            with os.scandir(place) as found:
                entries = [
                    (entry.name, entry.is_dir(follow_symlinks=False), entry) for entry in found
                ]
        except OSError:
            self._left_out.append((UNREADABLE, folder))
            return []
        if hidden := self._hidden.get(place):
            entries = [entry for entry in entries if entry[0] not in hidden]
        self._seen += len(entries)
        if any(name == IGNORE_FILE for name, _, _ in entries):
            level = level.enter(self._root, folder)
        prefix = folder + b"/" if folder else b""
        inside: list[tuple[bytes, bool, IgnoreLevel]] = []
        for name, is_folder, entry in entries:
            path = prefix + name
            if level.leaves_out(path, name, is_folder=is_folder):
                continue
            if is_folder or (self._is_included(path) and self._is_searched(path, entry)):
                inside.append((path, is_folder, level))
        inside.sort(key=lambda each: each[0], reverse=True)
        return inside

    def _is_included(self, path: bytes) -> bool:
        return self._include.takes(path[len(self._start) + 1 :] if self._start else path)

    def _is_searched(self, path: bytes, entry: os.DirEntry[bytes] | Path) -> bool:
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:
            return False
        is_large = found.st_size > SIZE_MAX
        if is_large:
            self._left_out.append((LARGE, path))
        return stat.S_ISREG(found.st_mode) and not is_large


def list_dir(sandbox: FileOperations, path: str, depth: int = 2, limit: int = 200) -> FileList:
    """Return the files and folders below a folder, the highest levels first up to ``limit``.

    The others are only counted. Links to folders and ``.git`` are listed but not entered.
    """
    seen: list[tuple[tuple[str, ...], bool]] = []
    folders: list[tuple[str, ...]] = [()]
    count = 0
    for _ in range(depth):
        below: list[tuple[str, ...]] = []
        for names in folders:
            found = _names(sandbox, path, names)
            count += len(found)
            room = max(0, min(limit - len(seen), MAX_SEEN))
            for entry in found[:room]:
                seen.append(((*names, entry.name), entry.kind == "directory"))
            if count >= MAX_SEEN:
                break
            for entry in found:
                if entry.enters and entry.name not in _CLOSED:
                    below.append((*names, entry.name))
        folders = below if count < MAX_SEEN else []
    files = ("/".join(names) + ("/" if is_folder else "") for names, is_folder in sorted(seen))
    return FileList(sandbox.spell(path), tuple(files), count, DisplayHints(preferred_view="tree"))


def _names(sandbox: FileOperations, path: str, names: tuple[str, ...]) -> Sequence[ListedName]:
    try:
        return sandbox.list_names("/".join((path.rstrip("/"), *names)) if names else path)
    except ToolError:
        if not names:
            raise
        return []
