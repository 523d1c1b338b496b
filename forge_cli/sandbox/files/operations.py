"""File operations inside zones: each holds its target while it acts, after one checked access."""

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
    """A name in a folder and the kind of its target.

    ``enters`` is True for a real folder, not a link.
    """

    name: str
    kind: FileKind
    enters: bool = False


class FileOperations(ABC):
    """The methods shared by a sandbox and the view of a call.

    Each implements ``hold`` with its checks.
    """

    @property
    @abstractmethod
    def zones(self) -> tuple[Zone, ...]:
        """The zones of the worker."""

    @property
    @abstractmethod
    def hidden(self) -> Mapping[Path, Collection[str]]:
        """The names in each folder that tools do not see."""

    @abstractmethod
    def parse(self, path: str) -> ParsedPath:
        """Parse a path as it was written into a zone and a place in it."""

    @abstractmethod
    def spell(self, path: str) -> str:
        """Return a path as results show it: relative to the working directory, else virtual."""

    @abstractmethod
    def resolve(self, path: str, access: Access = Access.INFO) -> str:
        """Return the virtual path of the real file, which need not exist.

        A link to be deleted stays itself.
        """

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
        """Hold the target of a path for one access that its zone allows.

        Raise Stale if the target is not ``expected``. With ``folders``, a path to be read may be a
        folder. Without ``follow``, a link at the end of the path is held itself.
        """

    def real(self, path: str, access: Access | str = Access.READ) -> Path:
        """Return the path on the host, for a child process; a path to be read may be a folder."""
        with self.hold(path, Access(access), folders=True) as held:
            return held.place.real

    def exists(self, path: str) -> bool:
        """Return True if a readable zone has a file or folder at this path."""
        if self.parse(path).base is None:
            return True
        try:
            with self.hold(path, Access.INFO) as held:
                return held.kind is not None
        except NotAFolder:
            return False

    def stat(self, path: str, *, follow: bool = True) -> FileInfo:
        """Return information about a path's target.

        Without ``follow``, about a link at its end itself.
        """
        if self.parse(path).base is None:
            return FileInfo("/", "/", "directory", 0, 0.0)
        with self.hold(path, Access.INFO, follow=follow) as held:
            return held.info()

    def list(self, path: str) -> list[FolderEntry]:
        """Return the entries of a folder, sorted; ``/`` contains the zones."""
        if self.parse(path).base is None:
            return sorted(FolderEntry(zone.name, "directory") for zone in self.zones)
        return sorted(self._entries(path, self._entry), key=attrgetter("name", "kind"))

    def list_names(self, path: str) -> Sequence[ListedName]:
        """Return the names in a folder without sizes, which saves a look at each file."""
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
                rows: list[T] = []
                for entry in found:
                    row = None if entry.name in hidden else make(held.place, entry)
                    if row is not None:
                        rows.append(row)
                return rows

    def read_bytes(
        self, path: str, *, limit: int | None = None, expected: str | None = None
    ) -> bytes:
        """Return the content of a regular file, or its first ``limit`` bytes."""
        with self.hold(path, Access.READ, expected) as held:
            return held.read(limit)

    def digest(self, path: str) -> str:
        """Return a hash that differs after every change, and is the same for equal contents.

        For a very large file, it is a hash of its state on disk instead.
        """
        with self.hold(path, Access.READ) as held:
            return held.digest()

    def attributes(self, path: str) -> os.stat_result | None:
        """Return the mode, owner and other attributes of a file; None if there is no file."""
        with self.hold(path, Access.INFO) as held:
            if held.kind == "file":
                return held.place.info
            return None

    def write_bytes(
        self,
        path: str,
        data: bytes,
        *,
        expected: str | None = None,
        like: os.stat_result | None = None,
    ) -> None:
        """Replace a file as a whole, or create it together with the folders above it.

        An existing file keeps its mode; ``like`` gives other ``attributes`` instead.
        """
        with self.hold(path, Access.WRITE, expected) as held:
            held.write(data, like)

    def delete(self, path: str, *, expected: str | None = None) -> None:
        """Delete a file, a link (never its target), or an empty folder."""
        with self.hold(path, Access.DELETE, expected) as held:
            held.delete()

    def _entry(self, place: Place, entry: os.DirEntry[str]) -> FolderEntry | None:
        try:
            info = entry.stat(follow_symlinks=False)
        # The entry was deleted since the folder was listed.
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
        # The entry is a link or a special file, so that it has to be looked at.
        found = self._entry(place, entry)
        if found:
            return ListedName(found.name, found.kind)
        return None

    def _link_target(self, place: Place, name: str) -> tuple[FileKind, int]:
        try:
            found = self.stat(virtual_path(place.zone, (*place.parts, name)))
        except ToolError:
            return "link", 0
        return found.kind, found.size
