"""The files of a source of tools, a folder, an archive or a repository, before anything of it is kept."""

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
"""Files and folders of a source that are looked at."""
MAX_DEPTH = 32
"""Folders in each other."""
LINK = "is a link, which is not imported; put the file itself there"
SETUID = "has the setuid or setgid bit, which no tool gets; take it away (chmod ug-s)"
NOT_A_FILE = "is neither a file nor a folder, such as a device or a pipe"
_DRIVE = re.compile(r"[A-Za-z]:")


class SourceError(ForgeError):
    """A source that cannot be read, or that no tool is taken from."""


class OfferedFile(Struct, frozen=True):
    """A file of a source; one with a problem cannot be part of a tool."""

    size: int
    executable: bool = False
    problem: str | None = None
    key: str = ""
    """The name by which the source knows it, where that is another one than its path."""


class Listing:
    """The files of a source by their paths; no two are one file on any file system."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.files: dict[str, OfferedFile] = {}
        self._seen: dict[str, str] = {}
        self._entries = 0

    def count(self) -> None:
        """Count an entry, which may be a folder; too many are a SourceError."""
        self._entries += 1
        if self._entries > MAX_ENTRIES:
            problem = f"{self.title} holds more than {MAX_ENTRIES:,} files and folders"
            raise SourceError(problem, hint="name the folder of the tool itself")

    def add(self, name: str, file: OfferedFile) -> None:
        """Add a file under the name that the source gives it; an unsafe name is a SourceError."""
        self.count()
        path = self.clean(name)
        if not path or self.is_made(path):
            return
        key = "/".join(map(folded, path.split("/")))
        if other := self._seen.get(key):
            raise SourceError(
                f"{self.title}: {shown(other)} and {shown(name)} would be one file; rename one of them"
            )
        self._seen[key] = name
        self.files[path] = file

    def clean(self, name: str) -> str:
        """The path of an entry inside the source; empty for the source itself."""
        if name.startswith("/") or _DRIVE.match(name) or ".." in name.split("/"):
            raise SourceError(
                f"{self.title}: {shown(name)} leads out of it, so nothing of it is imported"
            )
        if "\\" in name:
            raise SourceError(
                f"{self.title}: {shown(name)} has a backslash; pack it again with / between folders"
            )
        parts = [part for part in name.split("/") if part not in ("", ".")]
        for part in parts:
            if problem := unusable(part):
                raise SourceError(f"{self.title}: the name {shown(part)} {problem}; rename it")
        if len(parts) > MAX_DEPTH:
            raise SourceError(
                f"{self.title}: {shown(name)} lies more than {MAX_DEPTH} folders deep"
            )
        return "/".join(parts)

    @staticmethod
    def is_made(path: str) -> bool:
        """Is it in a folder that is no part of a tool, such as ``.git``?"""
        return any(part in MADE for part in path.split("/")[:-1])

    def check_folders(self) -> None:
        """Refuse a name that is both a file and a folder."""
        for key, name in self._seen.items():
            inside = key.rpartition("/")[0]
            while inside:
                if inside in self._seen:
                    problem = f"{self.title}: {shown(self._seen[inside])} is a file, and {shown(name)} lies in it"
                    raise SourceError(problem, hint="rename one of them")
                inside = inside.rpartition("/")[0]


class ToolSource(ABC):
    """A place that tools come from; nothing in it is executed."""

    kind: str

    def __init__(self, title: str) -> None:
        self.title = title
        """The name of the source, as it is shown and recorded."""

    @abstractmethod
    async def listing(self) -> Listing:
        """Every file, which is not read yet."""

    @abstractmethod
    async def read(self, files: Mapping[str, OfferedFile]) -> dict[str, bytes]:
        """The bytes of some of these files, which are not too large together."""

    def facts(self) -> dict[str, str]:
        """The version of the source, such as a commit or a hash."""
        return {}


async def read_contents_of(
    source: ToolSource, files: Mapping[str, OfferedFile]
) -> dict[str, Content]:
    """Read files of a source; those that cannot be imported, or are too much, are a SourceError."""
    for path, file in files.items():
        if file.problem:
            raise SourceError(f"{source.title}: {shown(path)} {file.problem}")
    check_size(source.title, sum(file.size for file in files.values()))
    data = await source.read(files)
    check_size(source.title, sum(map(len, data.values())))
    return {path: Content(data[path], files[path].executable) for path in files}


def check_size(title: str, size: int) -> None:
    if size > MAX_BYTES:
        raise SourceError(
            f"{title}: its tools are larger than {MAX_BYTES // 1024**2} MiB, the most that is imported"
        )


class FolderSource(ToolSource):
    """A folder of this machine, as it is now."""

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
    """Why nothing of this kind is imported; None for an ordinary file."""
    if stat.S_ISLNK(mode):
        return LINK
    if not stat.S_ISREG(mode):
        return NOT_A_FILE
    return SETUID if mode & (stat.S_ISUID | stat.S_ISGID) else None


def _read_file(path: Path) -> bytes:
    """Read a file that is none but itself: it may have become a link since it was listed."""
    descriptor = os.open(
        path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    )
    with open(descriptor, "rb") as file:
        return file.read(MAX_BYTES + 1)


def roots(paths: Collection[str], file: str) -> list[str]:
    """The folders that hold a file of this name, without those inside of others; '' is the source itself."""
    found = [path.rpartition("/")[0] for path in paths if path.rpartition("/")[2] == file]
    outer: list[str] = []
    for folder in sorted(found, key=lambda each: (each.count("/") if each else -1, each)):
        if not any(not each or folder.startswith(f"{each}/") for each in outer):
            outer.append(folder)
    return outer
