"""The files of a tool's folder as one value, which can be packed into an archive."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from forge_cli.files.regular import open_regular
from forge_cli.files.replace import replace_file

MAX_BYTES = 16 * 1024 * 1024
"""Bytes of all files of one tool; the versions of a larger tool are not kept."""


class Content(Struct, frozen=True):
    """The bytes of a file, and whether it is executable."""

    data: bytes
    executable: bool


Contents = Mapping[str, Content]
"""Files by their path in the folder."""


class TooLargeError(Exception):
    """Raised for a tool with more than MAX_BYTES."""


def read_contents(folder: Path, names: Iterable[str]) -> dict[str, Content]:
    """Read files of a folder; raise TooLargeError if they have more than MAX_BYTES."""
    contents: dict[str, Content] = {}
    room = MAX_BYTES
    for name in sorted(names):
        with open_regular(folder / name) as file:
            data = file.read(room + 1)  # one byte more shows that the limit is exceeded
            executable = os.fstat(file.fileno()).st_mode & 0o111 != 0
        room -= len(data)
        if room < 0:
            raise TooLargeError(name)
        contents[name] = Content(data, executable)
    return contents


def pack(contents: Contents) -> bytes:
    """Return a tar.gz of files; the same files give the same bytes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(contents):
            entry = tarfile.TarInfo(name)
            entry.size = len(contents[name].data)
            entry.mode = 0o755 if contents[name].executable else 0o644
            archive.addfile(entry, io.BytesIO(contents[name].data))
    return gzip.compress(packed.getvalue(), mtime=0)


def unpack(packed: bytes) -> dict[str, Content]:
    """Return the files of an archive that ``pack`` made."""
    contents: dict[str, Content] = {}
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
        for entry in archive:
            file = archive.extractfile(entry)
            if file is not None:
                contents[entry.name] = Content(file.read(), entry.mode & 0o111 != 0)
    return contents


def write_contents(folder: Path, contents: Contents, before: Contents) -> None:
    """Replace the files ``before`` of a folder by ``contents``; leave others, such as ``.git``.

    Files are replaced one by one. A call in between asks, because that content is not approved.
    """
    for name in before:
        if name not in contents:
            (folder / name).unlink(missing_ok=True)
            _remove_empty(folder, (folder / name).parent)
    for name, content in contents.items():
        if before.get(name) != content:
            replace_file(folder / name, content.data, mode=0o777 if content.executable else 0o666)


def _remove_empty(folder: Path, inner: Path) -> None:
    """Delete empty folders from ``inner`` up to ``folder``, which stays."""
    with suppress(OSError):
        while inner != folder:
            inner.rmdir()
            inner = inner.parent
