"""A file that is checked once, then read, replaced or deleted by its folder's descriptor."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from hashlib import file_digest, sha256
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from msgspec import Struct

from forge_cli.core.errors import ToolError
from forge_cli.core.notify import Notify
from forge_cli.core.sandbox import READ_MAX, FileInfo, FileKind
from forge_cli.core.text import counted
from forge_cli.files.replace import replace_in
from forge_cli.sandbox.files.place import Place, kind_of, make_parent, state_of
from forge_cli.sandbox.files.virtual import ParsedPath

if TYPE_CHECKING:
    from forge_cli.sandbox.changes.apply import ChangeSet

KEPT_MAX = 10 * 1024 * 1024
"""The largest file, in bytes, whose content is copied before a change."""
# If the path is a pipe or a terminal now, opening must not block or take it as forge's own.
_WRITE_FLAGS = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
CHUNK = 1024 * 1024


class ChangeKeeper(Protocol):
    """Keeper of the contents of files before they are changed."""

    notify: Notify | None
    """Callback for a warning about contents that cannot be kept, before they are changed."""

    @property
    def trials(self) -> Path:
        """The folder for commands that were tried and may still be approved."""
        ...

    commands: bool
    """True if commands work on copies, so that their changes can be kept as well."""

    def keep(self, changes: ChangeSet) -> None:
        """Keep the originals of what a command is about to change."""
        ...

    def changing(self, held: HeldFile, data: bytes | None) -> AbstractContextManager[None]:
        """Return a context around a change to ``data``; None deletes the file."""
        ...

    def made(self, path: Path, digest: str) -> bool:
        """Return True if the session made the file, and only the session has changed it since."""
        ...

    def can_clone(self, held: HeldFile) -> bool:
        """Return True if a file of any size can be kept."""
        ...


class HeldFile(Struct, frozen=True):
    """The target of a path.

    Every method acts on that place, even if the path leads elsewhere now.
    """

    asked: ParsedPath
    place: Place
    changed: Callable[[Place, os.stat_result | None], None]
    """Called after a change with the state of the file, or None if it is gone."""
    open_changes: Callable[[], ChangeKeeper] | None = None

    @property
    def kind(self) -> FileKind | None:
        """The kind of the file; None if nothing exists at the path."""
        return self.place.kind

    @property
    def virtual(self) -> str:
        return self.place.virtual

    def info(self) -> FileInfo:
        place = self.place
        info = self._existing()
        name = place.parts[-1] if place.parts else place.zone.name
        return FileInfo(name, place.virtual, kind_of(info.st_mode), info.st_size, info.st_mtime)

    def read(self, limit: int | None = None) -> bytes:
        """Return the content of a regular file, or its first ``limit`` bytes.

        Raise a ToolError if a very large file is read without a limit.
        """
        with self._reading() as file:
            if limit is not None:
                return file.read(limit)
            data = file.read(READ_MAX + 1)
            if len(data) > READ_MAX:
                size = os.fstat(file.fileno()).st_size
                raise ToolError(
                    f"{self.asked} has {size} bytes, and at most {READ_MAX} are read as a whole"
                )
            return data

    def read_lines(self, first: int, count: int | None = None) -> bytes:
        """Return ``count`` lines from line ``first`` on, counted from 1.

        The file may have any size.
        """
        with self._reading() as file:
            return read_lines(file, first, count, at_most=READ_MAX, name=self.asked.text)

    def digest(self) -> str:
        """Return a hash that differs after every change of the file.

        It is the hash of the content or, for a very large file, of its state on disk.
        """
        if self._existing().st_size > READ_MAX:
            return sha256(repr(state_of(self._existing())).encode()).hexdigest()
        with self._reading() as file:
            return file_digest(file, "sha256").hexdigest()

    @property
    def unkept(self) -> str | None:
        """The reason that the content is not kept before a change, if any."""
        if self.kind != "file" or self._existing().st_size <= KEPT_MAX:
            return None
        if self.open_changes and self.open_changes().can_clone(self):
            return None
        return f"files of more than {KEPT_MAX >> 20} MB are not backed up"

    def write(self, data: bytes, like: os.stat_result | None = None) -> None:
        """Replace the file as a whole, or create it together with the folders above it.

        An existing file keeps its mode; ``like`` gives the attributes of another file instead.
        """
        with self._changing(data):
            self.restore(data, like)

    def restore(self, data: bytes | BufferedReader, like: os.stat_result | None = None) -> None:
        """Write like ``write``, without keeping the old content; ``data`` may be an open file."""
        with make_parent(self.place) as folder:
            old = _writable(folder, self.place.name)
            replace_in(folder, self.place.name, data, like=like or old)
            self.changed(self.place, os.stat(self.place.name, dir_fd=folder, follow_symlinks=False))

    def delete(self) -> None:
        """Delete a file, a link (never its target), or an empty folder."""
        self._existing()
        with self._changing(None):
            if self.kind == "directory":
                os.rmdir(self.place.name, dir_fd=self.place.folder)
            else:
                os.unlink(self.place.name, dir_fd=self.place.folder)
        self.changed(self.place, None)

    def _changing(self, data: bytes | None) -> AbstractContextManager[None]:
        if self.open_changes:
            return self.open_changes().changing(self, data)
        return nullcontext()

    @contextmanager
    def _reading(self) -> Iterator[BufferedReader]:
        self._existing()
        with os.fdopen(self.open(), "rb") as file:
            yield file

    def open(self) -> int:
        """Return a descriptor for reading a regular file; the caller closes it."""
        descriptor = os.open(self.place.name, _READ_FLAGS, dir_fd=self.place.folder)
        if kind_of(os.fstat(descriptor).st_mode) != "file":
            os.close(descriptor)
            raise ToolError(f"{self.asked} is not a regular file any more")
        return descriptor

    def _existing(self) -> os.stat_result:
        if self.place.info is None:
            raise ToolError(f"{self.asked} does not exist")
        return self.place.info


def _writable(folder: int, name: str) -> os.stat_result | None:
    """Return the state of the file to be replaced, after opening it for writing.

    A rename would also replace a file that its owner made read-only.
    """
    try:
        descriptor = os.open(name, _WRITE_FLAGS, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        # A running program cannot be opened for writing, and can be replaced.
        if error.errno != errno.ETXTBSY:
            raise
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    try:
        info = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if not stat.S_ISREG(info.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    return info


def read_lines(file: BinaryIO, first: int, count: int | None, *, at_most: int, name: str) -> bytes:
    """Return ``count`` lines from line ``first`` on, counted from 1; with None, all from there.

    Raise a ToolError if the file has fewer lines, or if the lines have more than ``at_most`` bytes.
    """
    number = 1
    ended = True
    size = 0
    found: list[bytes] = []
    # A very long line comes in several pieces, and counts once.
    while (count is None or number < first + count) and (piece := file.readline(CHUNK)):
        if number >= first:
            found.append(piece)
            size += len(piece)
        if size > at_most:
            raise ToolError(
                f"these lines of {name} have more than {at_most} bytes; read fewer lines at a time"
            )
        ended = piece.endswith(b"\n")
        number += ended
    if first > 1 and not found:
        raise ToolError(
            f"{name} has {counted(number - ended, 'line')}, so there is nothing at line {first}"
        )
    return b"".join(found)
