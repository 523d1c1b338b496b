"""Git's index: the staged files, without the times by which git detects changes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

_ENTRY = 40
"""Bytes of an index entry before the object's name: times, device, mode, owner and size."""
_OBJECT = 20
"""Bytes of the object's name."""
_EXTENDED = 0x4000
_NAME_LENGTH = 0xFFF
_STAGE = 0x3000
"""Flags of an entry of a merge that is not resolved."""
_WITHOUT_PADDING = 4
"""The version whose entries are not padded, and share beginnings of names."""


class StagedFile(Struct, frozen=True):
    """A staged file, and the state of the working file when git last compared both."""

    object: str
    """The name of the object with the contents."""
    modified: int
    """Nanoseconds since the epoch."""
    inode: int
    """The lower 32 bits."""
    size: int
    """The lower 32 bits."""


def find_staged(index: Path, name: bytes) -> StagedFile | None:
    """Return the entry of a file in an index; None if it has none, or if the index is unknown."""
    try:
        data = index.read_bytes()
        for start, _, _, flags, _, found in _entries(data):
            if found == name and not flags & _STAGE:
                seconds, nanoseconds, _, inode = struct.unpack_from(">4I", data, start + 8)
                size = struct.unpack_from(">I", data, start + _ENTRY - 4)[0]
                digest = data[start + _ENTRY : start + _ENTRY + _OBJECT].hex()
                return StagedFile(digest, seconds * 10**9 + nanoseconds, inode, size)
    except (OSError, struct.error, ValueError, IndexError):
        pass
    return None


def says_the_same(one: Path, other: Path) -> bool:
    """Return True if two index files have the same files staged, ignoring times.

    An index that cannot be read is never the same.
    """
    try:
        return list(staged_entries(one.read_bytes())) == list(staged_entries(other.read_bytes()))
    except (OSError, struct.error, ValueError, IndexError):
        return False


def staged_entries(data: bytes) -> Iterator[tuple[int, bytes, int, int, bytes]]:
    """Yield mode, object, flags, further flags and name of each entry (version 2 to 4)."""
    for _, mode, digest, flags, more, name in _entries(data):
        yield mode, digest, flags & ~_NAME_LENGTH, more, name


def _entries(data: bytes) -> Iterator[tuple[int, int, bytes, int, int, bytes]]:
    """Yield the position, mode, object, flags, further flags and name of each entry."""
    magic, version, count = struct.unpack_from(">4sII", data)
    if magic != b"DIRC" or version not in (2, 3, _WITHOUT_PADDING):
        raise ValueError("not an index that is known")
    at = 12
    name = b""
    for _ in range(count):
        start = at
        # Two times, the device and the inode come before the mode.
        mode = struct.unpack_from(">I", data, at + 24)[0]
        digest = data[at + _ENTRY : at + _ENTRY + _OBJECT]
        flags = struct.unpack_from(">H", data, at + _ENTRY + _OBJECT)[0]
        at += _ENTRY + _OBJECT + 2
        more = 0
        # Version 3 has a second word of flags.
        if flags & _EXTENDED:
            more = struct.unpack_from(">H", data, at)[0]
            at += 2
        # Version 4 stores only the difference from the previous name.
        if version == _WITHOUT_PADDING:
            removed, at = _number(data, at)
            end = data.index(b"\0", at)
            name = name[: len(name) - removed] + data[at:end]
            at = end + 1
        else:
            end = data.index(b"\0", at)
            name = data[at:end]
            # One to eight zero bytes fill an entry up to a multiple of eight.
            at = start + ((end - start) // 8 + 1) * 8
        yield start, mode, digest, flags, more, name


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Read a number of git's variable length; return it and the position behind it."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    return value, at + 1
