"""Tar and zip archives of tools, read without unpacking more than is needed."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from typing import IO, Any

from forge_cli.files.regular import open_regular
from forge_cli.toolsets.executables.contents import MAX_BYTES
from forge_cli.toolsets.executables.incoming import (
    LINK,
    NOT_A_FILE,
    Listing,
    OfferedFile,
    SourceError,
    ToolSource,
    problem_of_mode,
)

MAX_UNPACKED = 128 * 1024 * 1024
"""Bytes of an unpacked tar, including files that belong to no tool."""
MAX_PACKED = 128 * 1024 * 1024
SPARSE = "is sparse, which is not imported; pack it again without --sparse"
ENCRYPTED = "is encrypted; pack it again without a password"
_BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    ValueError,
)
"""Errors that the modules for archives raise; bz2 raises OSError as well."""
_PIECE = 1 << 16
_ALONE = "pack the folder of the tool alone"
_HINT = "pack it again, as zip or tar.gz"
_MAGIC: Mapping[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
}


class Bounded(BufferedIOBase):
    """A stream that raises SourceError after a number of bytes."""

    def __init__(self, inner: Any, title: str, room: int) -> None:
        self._inner = inner
        self._title = title
        self._room = room

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        wanted = self._room + 1  # one byte more shows that the limit is exceeded
        if size is not None and size >= 0:
            wanted = min(size, wanted)
        data: bytes = self._inner.read(wanted)
        self._room -= len(data)
        if self._room < 0:
            raise SourceError(
                f"{self._title} is larger than {MAX_UNPACKED // 1024**2} MiB unpacked",
                hint=_ALONE,
            )
        return data


class ArchiveSource(ToolSource):
    """A tar or zip archive that contains tools."""

    kind = "archive"

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        self._hash = ""

    def facts(self) -> dict[str, str]:
        return {"sha256": self._hash}

    async def listing(self) -> Listing:
        with self._opened() as file:
            if os.fstat(file.fileno()).st_size > MAX_PACKED:
                raise SourceError(
                    f"{self.title} is larger than {MAX_PACKED // 1024**2} MiB", hint=_ALONE
                )
            self._hash = hashlib.file_digest(file, "sha256").hexdigest()
        listing = Listing(self.title)
        with self._entries() as entries:
            for name, described, _ in entries:
                if described is None:
                    listing.count()
                    listing.clean(name)
                else:
                    listing.add(name, described)
        listing.check_folders()
        return listing

    async def read(self, files: Mapping[str, OfferedFile]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        wanted = {file.key: path for path, file in files.items()}
        with self._opened() as file:
            # The checks of the listing are valid for the same bytes only.
            if hashlib.file_digest(file, "sha256").hexdigest() != self._hash:
                raise SourceError(f"{self.title} changed while it was read", hint="import it again")
        with self._entries() as entries:
            for name, described, read in entries:
                if described is not None and name in wanted:
                    found[wanted[name]] = read()
        return found

    @contextmanager
    def _opened(self) -> Iterator[BufferedReader]:
        try:
            with open_regular(self._path) as file:
                yield file
        except OSError as error:
            raise SourceError(
                f"{self.title} cannot be read: {error.strerror or error}", hint=_HINT
            ) from None

    @contextmanager
    def _entries(self) -> Iterator[Iterator[Entry]]:
        """Yield an iterator over all entries; raise SourceError for a damaged archive."""
        with self._opened() as file:
            head = file.read(512)
            file.seek(0)
            try:
                # An empty zip begins with the second signature.
                if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
                    with zipfile.ZipFile(file) as archive:
                        yield _of_zip(archive)
                else:
                    yield _of_tar(file, head, self.title)
            except RuntimeError as error:
                # zipfile raises it for encrypted entries and unknown compression methods.
                raise SourceError(f"{self.title} cannot be read: {error}", hint=_HINT) from None
            except _BROKEN as error:
                why = str(error) or type(error).__name__
                problem = f"{self.title} is damaged or not an archive: {why}"
                raise SourceError(problem, hint=_HINT) from None


Entry = tuple[str, OfferedFile | None, Callable[[], bytes]]
"""A name, the description of a file (None for a folder), and a function that reads the file. It
has to be called before the next entry."""


def _of_zip(archive: zipfile.ZipFile) -> Iterator[Entry]:
    for info in archive.infolist():
        mode = info.external_attr >> 16  # the upper half is the mode on Unix
        if info.is_dir():
            yield info.filename, None, bytes
            continue
        if stat.S_IFMT(mode) == 0:  # archivers on systems without file modes leave it empty
            mode |= stat.S_IFREG
        problem = ENCRYPTED if info.flag_bits & 1 else problem_of_mode(mode)
        # zipfile cuts ``filename`` at a NUL character, so the original name is checked.
        file = OfferedFile(info.file_size, mode & 0o111 != 0, problem, info.orig_filename)
        yield info.orig_filename, file, partial(_read_zipped, archive, info)


def _read_zipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    with archive.open(info) as file:
        # The size in an archive may be false: one byte too many fails the later check.
        return file.read(MAX_BYTES + 1)


def _of_tar(file: IO[bytes], head: bytes, title: str) -> Iterator[Entry]:
    opener = next((opener for magic, opener in _MAGIC.items() if head.startswith(magic)), None)
    stream = Bounded(opener(file) if opener else file, title, MAX_UNPACKED)
    with tarfile.open(fileobj=stream, mode="r|") as archive:  # "|" because it cannot seek
        for info in archive:
            yield info.name, _described(info), partial(_read_tarred, archive, info)
    # The checksum of the compressed stream is behind the last entry, so read to the end.
    while stream.read(_PIECE):
        pass


def _described(info: tarfile.TarInfo) -> OfferedFile | None:
    if info.isdir():
        return None
    # The mode in a tar has no file type, which is a field of its own.
    problem = problem_of_mode(stat.S_IFREG | info.mode)
    if info.issym() or info.islnk():
        problem = LINK
    elif not info.isreg():
        problem = NOT_A_FILE
    elif info.issparse():
        problem = SPARSE
    return OfferedFile(info.size, info.mode & 0o111 != 0, problem, info.name)


def _read_tarred(archive: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(info)
    return b"" if file is None else file.read(MAX_BYTES + 1)
