"""The content of a tool's folder as one value: read, packed into an archive, and written again."""

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
"""Bytes of all files of one tool; a tool that has more is not kept."""


class Content(Struct, frozen=True):
    """The bytes of a file, and whether it can be executed."""

    data: bytes
    executable: bool


Contents = Mapping[str, Content]
"""Files by their path in the folder."""


class TooLargeError(Exception):
    """More bytes than are kept of a tool."""


def read_contents(folder: Path, names: Iterable[str]) -> dict[str, Content]:
    """Read files of a folder; more than MAX_BYTES is a TooLargeError."""
    contents: dict[str, Content] = {}
    room = MAX_BYTES
    for name in sorted(names):
        with open_regular(folder / name) as file:
            data = file.read(room + 1)
            executable = os.fstat(file.fileno()).st_mode & 0o111 != 0
        room -= len(data)
        if room < 0:
            raise TooLargeError(name)
        contents[name] = Content(data, executable)
    return contents


def pack(contents: Contents) -> bytes:
    """Pack files into a tar.gz that is the same for the same files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(contents):
            entry = tarfile.TarInfo(name)
            entry.size = len(contents[name].data)
            entry.mode = 0o755 if contents[name].executable else 0o644
            archive.addfile(entry, io.BytesIO(contents[name].data))
    return gzip.compress(packed.getvalue(), mtime=0)


def unpack(packed: bytes) -> dict[str, Content]:
    """Read what ``pack`` made."""
    contents: dict[str, Content] = {}
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
        for entry in archive:
            file = archive.extractfile(entry)
            if file is not None:
                contents[entry.name] = Content(file.read(), entry.mode & 0o111 != 0)
    return contents


def write_contents(folder: Path, contents: Contents, before: Contents) -> None:
    """Make a folder hold these files instead of those before; what is neither stays, such as ``.git``.

    Files are replaced one by one: a call in between asks, since the content then is none that was approved.
    """
    for name in before:
        if name not in contents:
            (folder / name).unlink(missing_ok=True)
            _remove_empty(folder, (folder / name).parent)
    for name, content in contents.items():
        if before.get(name) != content:
            replace_file(folder / name, content.data, mode=0o777 if content.executable else 0o666)


def _remove_empty(folder: Path, inner: Path) -> None:
    """Remove folders that have become empty, up to the folder itself."""
    with suppress(OSError):
        while inner != folder:
            inner.rmdir()
            inner = inner.parent
