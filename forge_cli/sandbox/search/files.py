"""The files that a search looks at, what it leaves out as git would, and what is below a folder."""

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
"""Bytes of a file that is searched."""
LARGE, UNREADABLE = "large", "unreadable"
_BATCH_BYTES = 256 * 1024
"""Of the paths in one batch: they are arguments of a program."""
_BATCH_NAMES = 10_000
"""Names that are looked at for one batch: how long a walk continues after its caller left."""
SEEN_MAX = 20_000
_CLOSED = frozenset({".git"})


class FileBatch(Struct, frozen=True):
    """Files to search, as paths below the root of their zone, and why others are left out; both may be empty."""

    files: list[bytes] = field(default_factory=list)
    left_out: list[tuple[str, bytes]] = field(default_factory=list)


class SearchStart(Struct, frozen=True):
    """The start of a search: a file or folder below the root of a zone."""

    root: Path
    below: str = ""
    is_file: bool = False
    hidden: Mapping[Path, Collection[str]] = field(default_factory=dict)
    """By folder, the names in it that are not searched."""


class Include(Struct, frozen=True):
    """The paths below the start of a search that count: those that fit a glob, or all."""

    paths: re.Pattern[str] | None = None

    @classmethod
    def parse(cls, include: str) -> Include:
        """Read a glob; one without a slash is for names, wherever they are."""
        text = include.strip().removeprefix("./")
        problem = unusable(text) or (
            "excludes files; name those to search" if text.startswith("!") else None
        )
        if problem:
            raise ToolError(f"include {shown(include)} {problem}")
        try:
            return cls(match_any(glob_expression(_whole(each)) for each in expand_braces(text)))
        except BadGlob as error:
            raise ToolError(
                f"include {shown(include)} is not a glob: {error}; use one like '*.py' or 'src/**/*.ts'"
            ) from None

    def takes(self, path: bytes) -> bool:
        return self.paths is None or self.paths.fullmatch(os.fsdecode(path)) is not None


def _whole(glob: str) -> str:
    glob = f"{glob}**" if glob.endswith("/") else glob
    return glob.removeprefix("/") if "/" in glob else f"**/{glob}"


class FileWalk:
    """The files below a start, in the order of their names; links are none."""

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
        """At least one."""
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
        """Each file, and None for a folder that was listed."""
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
        """The files and folders to look at in a folder, last name first."""
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
        inside = [
            (path, is_folder, level)
            for name, is_folder, entry in entries
            if not level.leaves_out(path := prefix + name, name, is_folder=is_folder)
            and (is_folder or (self._is_included(path) and self._is_searched(path, entry)))
        ]
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
    """The files and folders below a folder; of more than ``limit`` the ones that lie highest, the others counted.

    Links to folders and ``.git`` are named but not entered.
    """
    seen: list[tuple[tuple[str, ...], bool]] = []
    folders: list[tuple[str, ...]] = [()]
    count = 0
    for _ in range(depth):
        below: list[tuple[str, ...]] = []
        for names in folders:
            found = _names(sandbox, path, names)
            count += len(found)
            room = min(limit - len(seen), SEEN_MAX)
            seen += [
                ((*names, entry.name), entry.kind == "directory") for entry in found[: max(room, 0)]
            ]
            if count >= SEEN_MAX:
                break
            below += [
                (*names, entry.name)
                for entry in found
                if entry.enters and entry.name not in _CLOSED
            ]
        folders = below if count < SEEN_MAX else []
    files = ("/".join(names) + ("/" if is_folder else "") for names, is_folder in sorted(seen))
    return FileList(sandbox.spell(path), tuple(files), count, DisplayHints(preferred_view="tree"))


def _names(sandbox: FileOperations, path: str, names: tuple[str, ...]) -> Sequence[ListedName]:
    try:
        return sandbox.list_names("/".join((path.rstrip("/"), *names)) if names else path)
    except ToolError:
        if not names:
            raise
        return []
