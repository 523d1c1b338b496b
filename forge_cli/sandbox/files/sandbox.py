"""The sandbox: every way by which a tool reaches a file, each checked on the descriptor that it then uses."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import file_digest
from io import BufferedReader
from pathlib import Path

from forge_cli.core.approval import Approval, Verdict
from forge_cli.core.errors import Stale, ToolError
from forge_cli.core.text import visible
from forge_cli.sandbox.files import capability
from forge_cli.sandbox.files.atomic import replace_file
from forge_cli.sandbox.files.consent import consent
from forge_cli.sandbox.files.place import FileKind, Place, kind_of, parent_made, readable
from forge_cli.sandbox.files.protected import OwnFiles
from forge_cli.sandbox.files.virtual import VirtualPath, parse, virtual
from forge_cli.sandbox.files.walk import NotAFolder, locate
from forge_cli.sandbox.names import shown, unusable
from forge_cli.sandbox.zones.zones import Access, Isolation, Zone

__all__ = ["Access", "FileInfo", "FolderEntry", "Sandbox"]

READ_MAX = 64 * 1024 * 1024
"""Bytes of a file that is read as a whole."""
_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True)
class FileInfo:
    """What a file or folder is, by the path it really has."""

    name: str
    path: str
    kind: FileKind
    size: int
    mtime: float


@dataclass(frozen=True, order=True)
class FolderEntry:
    """One line of a listing; ``link`` is one that leads nowhere or outside, an unusable name is shown escaped."""

    name: str
    kind: FileKind
    size: int = 0


Entries = list[FolderEntry]


class Sandbox:
    """The zones of one worker, as its tools see them.

    ``judge`` says whether somebody has to consent; the other methods act. Each of them resolves the path anew and
    checks the capability again, so a tree that changed since ``judge`` is no way out. Consent is not checked again:
    give ``expected``, the ``resolve`` of the path that was judged, and a path that meanwhile leads elsewhere is
    ``Stale``.
    """

    def __init__(
        self, zones: Iterable[Zone], *, protected: Iterable[Path] = (), isolation: Isolation | None = None
    ) -> None:
        self._zones = tuple(zones)
        self.protected = tuple(protected)
        self.isolation = isolation or Isolation()
        self.told: set[str] = set()
        """What its user has been told and need not hear from every toolset."""
        self._own = OwnFiles(self.protected)

    @property
    def zones(self) -> tuple[Zone, ...]:
        return self._zones

    def judge(self, path: str, access: Access) -> Verdict:
        """Whether the access needs consent, and why; a ToolError when it is not possible at all."""
        if self._is_root(path) and not access.changes and access is not Access.READ:
            return Verdict(Approval.PRE_APPROVED, "the list of zones", by="rule")
        try:
            with self._open(path, access) as place:
                return consent(place, access, self._own)
        except NotAFolder as nothing:
            if access is not Access.INFO:
                raise
            return Verdict(Approval.PRE_APPROVED, str(nothing), by="rule")

    def resolve(self, path: str, access: Access = Access.INFO) -> str:
        """The virtual path of the real file, existing or not; a link that is to be deleted stays itself."""
        if self._is_root(path):
            return "/"
        with self._locate(parse(path, self._zones), follow=access is not Access.DELETE) as place:
            return place.virtual

    def real(self, path: str, access: Access) -> Path:
        """The path on the host, for a child process; what that process finds there is its own affair."""
        with self._open(path, access) as place:
            return place.real

    def exists(self, path: str) -> bool:
        if self._is_root(path):
            return True
        try:
            with self._open(path, Access.INFO) as place:
                return place.kind is not None
        except NotAFolder:
            return False

    def stat(self, path: str, *, follow: bool = True) -> FileInfo:
        """What a path leads to; without ``follow`` a link at its end is told as itself."""
        if self._is_root(path):
            return FileInfo("/", "/", "directory", 0, 0.0)
        with self._open(path, Access.INFO, follow=follow) as place:
            if place.info is None:
                raise _no_such(path)
            name = place.parts[-1] if place.parts else place.zone.name
            return FileInfo(name, place.virtual, kind_of(place.info.st_mode), place.info.st_size, place.info.st_mtime)

    def list(self, path: str) -> Entries:
        """What is in a folder, sorted; ``/`` holds the zones."""
        if self._is_root(path):
            return sorted(FolderEntry(zone.name, "directory") for zone in self._zones)
        with self._open(path, Access.LIST) as place:
            if place.info is None:
                raise _no_such(path)
            with readable(place.folder, place.name) as folder, os.scandir(folder) as found:
                return sorted(filter(None, (self._entry(place, entry) for entry in found)))

    def read_bytes(self, path: str, *, limit: int | None = None, expected: str | None = None) -> bytes:
        """The content of a regular file, or its first ``limit`` bytes; a very large one is not read as a whole."""
        with self._reading(path, expected) as file:
            if limit is not None:
                return file.read(limit)
            data = file.read(READ_MAX + 1)
            if len(data) > READ_MAX:
                size = os.fstat(file.fileno()).st_size
                raise ToolError(f"{shown(path)} has {size} bytes, and at most {READ_MAX} are read as a whole")
            return data

    def digest(self, path: str) -> str:
        """Equal for equal content of a file, however large."""
        with self._reading(path) as file:
            return file_digest(file, "sha256").hexdigest()

    @contextmanager
    def _reading(self, path: str, expected: str | None = None) -> Iterator[BufferedReader]:
        with self._open(path, Access.READ, expected) as place:
            if place.info is None:
                raise _no_such(path)
            with open(os.open(place.name, _READING, dir_fd=place.folder), "rb") as file:
                if kind_of(os.fstat(file.fileno()).st_mode) != "file":
                    raise ToolError(f"{shown(path)} is no regular file any more")
                yield file

    def attributes(self, path: str) -> os.stat_result | None:
        """What a file has besides its content: its mode, and who owns it; None where there is no file."""
        with self._open(path, Access.INFO) as place:
            return place.info if place.kind == "file" else None

    def write_bytes(
        self, path: str, data: bytes, *, expected: str | None = None, like: os.stat_result | None = None
    ) -> None:
        """Replace a file as a whole, or make it, with the folders above it.

        A file that is replaced keeps its mode; with ``like`` it gets another's, those of ``attributes``.
        """
        with self._open(path, Access.WRITE, expected) as place, parent_made(place) as folder:
            replace_file(folder, place.name, data, like)

    def delete(self, path: str, *, expected: str | None = None) -> None:
        """Delete a file, a link (never what it leads to), or an empty folder."""
        with self._open(path, Access.DELETE, expected) as place:
            if place.info is None:
                raise _no_such(path)
            if place.kind == "directory":
                os.rmdir(place.name, dir_fd=place.folder)
            else:
                os.unlink(place.name, dir_fd=place.folder)

    def _is_root(self, path: str) -> bool:
        return parse(path, self._zones).zone is None

    @contextmanager
    def _open(self, path: str, access: Access, expected: str | None = None, *, follow: bool = True) -> Iterator[Place]:
        """Hold the place for one access that its zone is capable of."""
        asked = parse(path, self._zones)
        with self._locate(asked, follow=follow and access is not Access.DELETE) as place:
            capability.check(asked, place, access, self._zones)
            if expected is not None and place.virtual != expected:
                raise Stale(f"{asked} led to {shown(expected)} when it was judged, and to {shown(place.virtual)} now")
            yield place

    @contextmanager
    def _locate(self, asked: VirtualPath, *, follow: bool) -> Iterator[Place]:
        if asked.zone is None:
            raise ToolError(f"{asked} is the list of zones and cannot be used as a file; list it instead")
        try:
            with locate(asked, asked.zone, self._zones, through_last=follow) as place:
                yield place
        except OSError as error:
            raise ToolError(f"{asked} cannot be used: {error.strerror or error}") from error

    def _entry(self, place: Place, entry: os.DirEntry[str]) -> FolderEntry | None:
        try:
            info = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return None
        kind, size = kind_of(info.st_mode), info.st_size
        if kind == "link":
            kind, size = self._behind(virtual(place.zone, (*place.parts, entry.name)))
        return FolderEntry(
            visible(entry.name) if unusable(entry.name) else entry.name, kind, size if kind == "file" else 0
        )

    def _behind(self, link: str) -> tuple[FileKind, int]:
        try:
            found = self.stat(link)
        except ToolError:
            return "link", 0
        return found.kind, found.size


def _no_such(path: str) -> ToolError:
    return ToolError(f"{shown(path)} does not exist")
