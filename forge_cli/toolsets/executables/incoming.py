"""The files of a source of tools: a folder, an archive or a repository."""

from __future__ import annotations

import os
import re
import stat
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from pathlib import Path

from msgspec import Struct

from forge_cli.core.errors import ForgeError
from forge_cli.sandbox.names import folded, shown, unusable
from forge_cli.toolsets.executables.contents import MAX_BYTES, Content
from forge_cli.toolsets.executables.registry import MADE

MAX_ENTRIES = 20_000
"""Files and folders in one source."""
MAX_DEPTH = 32
"""Levels of nested folders."""
LINK = "is a link, and links are not imported; replace it by the file itself"
SETUID = "has the setuid or setgid bit; remove it (chmod ug-s)"
NOT_A_FILE = "is neither a file nor a folder but a device, a pipe or the like"
_DRIVE = re.compile(r"[A-Za-z]:")
"""A drive of Windows, with which a path there leads out of the source."""


class SourceError(ForgeError):
    """Raised if a source cannot be read, or if a tool in it cannot be imported."""


class OfferedFile(Struct, frozen=True):
    """A file of a source; a file with a ``problem`` cannot be imported."""

    size: int
    executable: bool = False
    problem: str | None = None
    key: str = ""
    """The name of the file in the source, if it differs from its path."""


class Listing:
    """The files of a source by path.

    No two names may differ only in a way that some file systems ignore, such as case.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.files: dict[str, OfferedFile] = {}
        self._seen: dict[str, str] = {}
        self._entries = 0

    def count(self) -> None:
        """Count an entry, which may be a folder; raise SourceError if there are too many."""
        self._entries += 1
        if self._entries > MAX_ENTRIES:
            problem = f"{self.title} contains more than {MAX_ENTRIES:,} files and folders"
            raise SourceError(problem, hint="name the folder of the tool itself")

    def add(self, name: str, file: OfferedFile) -> None:
        """Add a file by its name in the source; raise SourceError for an unsafe name."""
        self.count()
        path = self.clean(name)
        if not path or self.is_made(path):
            return
        key = "/".join(map(folded, path.split("/")))
        if other := self._seen.get(key):
            problem = f"{shown(other)} and {shown(name)} would be the same file; rename one of them"
            raise SourceError(f"{self.title}: {problem}")
        self._seen[key] = name
        self.files[path] = file

    def clean(self, name: str) -> str:
        """Return the path of an entry inside the source; empty for the source itself."""
        if name.startswith("/") or _DRIVE.match(name) or ".." in name.split("/"):
            raise SourceError(
                f"{self.title}: {shown(name)} leads out of the source; nothing was imported"
            )
        if "\\" in name:
            raise SourceError(
                f"{self.title}: {shown(name)} contains a backslash; separate folders by /"
            )
        parts = [part for part in name.split("/") if part not in ("", ".")]
        for part in parts:
            if problem := unusable(part):
                raise SourceError(f"{self.title}: the name {shown(part)} {problem}; rename it")
        if len(parts) > MAX_DEPTH:
            raise SourceError(f"{self.title}: {shown(name)} is more than {MAX_DEPTH} folders deep")
        return "/".join(parts)

    @staticmethod
    def is_made(path: str) -> bool:
        """Return True for a file in a folder such as ``.git``, which is no part of a tool."""
        return any(part in MADE for part in path.split("/")[:-1])

    def check_folders(self) -> None:
        """Raise SourceError if a name is both a file and a folder."""
        for key, name in self._seen.items():
            inside = key.rpartition("/")[0]
            while inside:
                if inside in self._seen:
                    file = shown(self._seen[inside])
                    problem = f"{self.title}: {file} is a file, but {shown(name)} is below it"
                    raise SourceError(problem, hint="rename one of them")
                inside = inside.rpartition("/")[0]


class ToolSource(ABC):
    """A place to import tools from; nothing in it is executed."""

    kind: str

    def __init__(self, title: str) -> None:
        self.title = title
        """The name of the source, for messages and records."""

    @abstractmethod
    async def listing(self) -> Listing:
        """Return the files of the source without reading them."""

    @abstractmethod
    async def read(self, files: Mapping[str, OfferedFile]) -> dict[str, bytes]:
        """Return the bytes of some files; the caller has checked their total size."""

    def facts(self) -> dict[str, str]:
        """Return facts that identify the version, such as a commit or a hash."""
        return {}


async def read_contents_of(
    source: ToolSource, files: Mapping[str, OfferedFile]
) -> dict[str, Content]:
    """Read files of a source; raise SourceError for problems and for too many bytes."""
    for path, file in files.items():
        if file.problem:
            raise SourceError(f"{source.title}: {shown(path)} {file.problem}")
    check_size(source.title, sum(file.size for file in files.values()))
    data = await source.read(files)
    check_size(source.title, sum(map(len, data.values())))
    return {path: Content(data[path], files[path].executable) for path in files}


def check_size(title: str, size: int) -> None:
    """Raise SourceError if the files of tools are too large to be imported."""
    if size > MAX_BYTES:
        raise SourceError(
            f"{title}: its tools are larger than {MAX_BYTES // 1024**2} MiB, the limit of an import"
        )


class FolderSource(ToolSource):
    """A folder on this machine."""

    kind = "folder"

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self._folder = folder

    async def listing(self) -> Listing:
        listing = Listing(self.title)
        try:
            self._walk(listing, "")
        except OSError as error:
            raise SourceError(
                f"{error.filename or self.title} cannot be read: {error.strerror}"
            ) from None
        return listing

    def _walk(self, listing: Listing, inside: str) -> None:
        with os.scandir(self._folder / inside) as entries:
            for entry in entries:
                path = f"{inside}/{entry.name}" if inside else entry.name
                if not entry.is_dir(follow_symlinks=False):
                    listing.add(path, _described(entry.stat(follow_symlinks=False)))
                elif entry.name not in MADE:
                    listing.count()
                    if path.count("/") < MAX_DEPTH:
                        self._walk(listing, path)

    async def read(self, files: Mapping[str, OfferedFile]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for path in files:
            try:
                found[path] = _read_file(self._folder / path)
            except OSError as error:
                raise SourceError(
                    f"{self._folder / path} cannot be read: {error.strerror}"
                ) from None
        return found


def _described(status: os.stat_result) -> OfferedFile:
    return OfferedFile(status.st_size, status.st_mode & 0o111 != 0, problem_of_mode(status.st_mode))


def problem_of_mode(mode: int) -> str | None:
    """Return why a file with this mode cannot be imported; None for an ordinary file."""
    if stat.S_ISLNK(mode):
        return LINK
    if not stat.S_ISREG(mode):
        return NOT_A_FILE
    return SETUID if mode & (stat.S_ISUID | stat.S_ISGID) else None


def _read_file(path: Path) -> bytes:
    """Read a file without following a link, because it may have become one since it was listed."""
    # O_NONBLOCK: opening a named pipe would otherwise wait for a writer.
    descriptor = os.open(
        path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    )
    with open(descriptor, "rb") as file:
        return file.read(MAX_BYTES + 1)


def roots(paths: Collection[str], file: str) -> list[str]:
    """Return the outermost folders that contain a file of this name; '' is the source itself."""
    found = [path.rpartition("/")[0] for path in paths if path.rpartition("/")[2] == file]
    outer: list[str] = []
    # Parents first; -1 puts the source itself before its folders, which have no slash either.
    for folder in sorted(found, key=lambda each: (each.count("/") if each else -1, each)):
        if not any(not each or folder.startswith(f"{each}/") for each in outer):
            outer.append(folder)
    return outer
