"""Operations on files inside zones: each holds the place that it acts on, for one access that was checked."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from forge_cli.core.errors import ToolError
from forge_cli.core.sandbox import FileInfo, FileKind, FolderEntry
from forge_cli.core.text import visible
from forge_cli.core.zones import Access, Zone
from forge_cli.sandbox.files.place import NotAFolder, kind_of, open_for_listing
from forge_cli.sandbox.files.virtual import virtual_path
from forge_cli.sandbox.names import shown, unusable

if TYPE_CHECKING:
    from forge_cli.sandbox.files.held import HeldFile
    from forge_cli.sandbox.files.place import Place
    from forge_cli.sandbox.files.virtual import ParsedPath

T = TypeVar("T")


class ListedName(NamedTuple):
    """A name in a folder, and what it leads to; ``enters`` for a folder that is there itself, not by a link."""

    name: str
    kind: FileKind
    enters: bool = False


class FileOperations(ABC):
    """The methods that a sandbox and the view of a call share; ``hold`` checks each access in its own way."""

    @property
    @abstractmethod
    def zones(self) -> tuple[Zone, ...]:
        """The zones of the worker."""

    @property
    @abstractmethod
    def hidden(self) -> Mapping[Path, Collection[str]]:
        """By folder, the names in it that are not there for tools."""

    @abstractmethod
    def parse(self, path: str) -> ParsedPath:
        """Understand a path as it was written: its zone, and the place in it."""

    @abstractmethod
    def spell(self, path: str) -> str:
        """Return a path as results name it: relative to the working directory below that, else virtual."""

    @abstractmethod
    def resolve(self, path: str, access: Access = Access.INFO) -> str:
        """Return the virtual path of the real file, existing or not; a link that is to be deleted stays itself."""

    @abstractmethod
    def hold(
        self,
        path: str,
        access: Access,
        expected: str | None = None,
        *,
        follow: bool = True,
        folders: bool = False,
    ) -> AbstractContextManager[HeldFile]:
        """Hold what a path leads to for one access that its zone is capable of; ``Stale`` if it is not ``expected``.

        With ``folders`` a path to be read may be a folder; without ``follow`` a link at its end is held itself.
        """

    def real(self, path: str, access: Access | str = Access.READ) -> Path:
        """The path on the host, for a child process; a path to be read may be a folder."""
        with self.hold(path, Access(access), folders=True) as held:
            return held.place.real

    def exists(self, path: str) -> bool:
        """Is there a file or folder of this path, in a zone that may be read?"""
        if self.parse(path).base is None:
            return True
        try:
            with self.hold(path, Access.INFO) as held:
                return held.kind is not None
        except NotAFolder:
            return False

    def stat(self, path: str, *, follow: bool = True) -> FileInfo:
        """The entry that a path leads to; without ``follow`` a link at its end is described itself."""
        if self.parse(path).base is None:
            return FileInfo("/", "/", "directory", 0, 0.0)
        with self.hold(path, Access.INFO, follow=follow) as held:
            return held.info()

    def list(self, path: str) -> list[FolderEntry]:
        """The entries of a folder, sorted; ``/`` holds the zones."""
        if self.parse(path).base is None:
            return sorted(FolderEntry(zone.name, "directory") for zone in self.zones)
        return sorted(self._entries(path, self._entry), key=attrgetter("name", "kind"))

    def list_names(self, path: str) -> Sequence[ListedName]:
        """The same without sizes, for many folders: no file is looked at where the folder says what it is."""
        if self.parse(path).base is None:
            return sorted(ListedName(zone.name, "directory", enters=True) for zone in self.zones)
        return sorted(self._entries(path, self._name))

    def _entries(
        self, path: str, make: Callable[[Place, os.DirEntry[str]], T | None]
    ) -> Sequence[T]:
        with self.hold(path, Access.LIST) as held:
            if held.place.info is None:
                raise ToolError(f"{shown(path)} does not exist")
            listing = open_for_listing(held.place.folder, held.place.name)
            hidden = self.hidden.get(held.place.real, ())
            with listing as folder, os.scandir(folder) as found:
                entries = (entry for entry in found if entry.name not in hidden)
                return [made for entry in entries if (made := make(held.place, entry)) is not None]

    def read_bytes(
        self, path: str, *, limit: int | None = None, expected: str | None = None
    ) -> bytes:
        """The content of a regular file, or its first ``limit`` bytes; a very large one is not read as a whole."""
        with self.hold(path, Access.READ, expected) as held:
            return held.read(limit)

    def digest(self, path: str) -> str:
        """Another one after any change of a file; of equal content the same, unless the file is very large."""
        with self.hold(path, Access.READ) as held:
            return held.digest()

    def attributes(self, path: str) -> os.stat_result | None:
        """The attributes of a file: its mode, and who owns it; None where there is no file."""
        with self.hold(path, Access.INFO) as held:
            return held.place.info if held.kind == "file" else None

    def write_bytes(
        self,
        path: str,
        data: bytes,
        *,
        expected: str | None = None,
        like: os.stat_result | None = None,
    ) -> None:
        """Replace a file as a whole, or make it, with the folders above it.

        A file that is replaced keeps its mode; with ``like`` it gets another's, those of ``attributes``.
        """
        with self.hold(path, Access.WRITE, expected) as held:
            held.write(data, like)

    def delete(self, path: str, *, expected: str | None = None) -> None:
        """Delete a file, a link (never what it leads to), or an empty folder."""
        with self.hold(path, Access.DELETE, expected) as held:
            held.delete()

    def _entry(self, place: Place, entry: os.DirEntry[str]) -> FolderEntry | None:
        try:
            info = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return None
        kind = kind_of(info.st_mode)
        size = info.st_size
        if kind == "link":
            kind, size = self._link_target(place, entry.name)
        name = visible(entry.name) if unusable(entry.name) else entry.name
        return FolderEntry(name, kind, size if kind == "file" else 0)

    def _name(self, place: Place, entry: os.DirEntry[str]) -> ListedName | None:
        name = entry.name
        usable = not unusable(entry.name)
        shown_name = name if usable else visible(name)
        if entry.is_file(follow_symlinks=False):
            return ListedName(shown_name, "file")
        if entry.is_dir(follow_symlinks=False):
            return ListedName(shown_name, "directory", enters=usable)
        found = self._entry(place, entry)
        return ListedName(found.name, found.kind) if found else None

    def _link_target(self, place: Place, name: str) -> tuple[FileKind, int]:
        try:
            found = self.stat(virtual_path(place.zone, (*place.parts, name)))
        except ToolError:
            return "link", 0
        return found.kind, found.size
