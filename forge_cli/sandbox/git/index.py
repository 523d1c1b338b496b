"""Git's index: the staged files, without the times by which git detects changes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

_ENTRY = 40
"""Bytes of an index entry before the object's name: times, device, mode, owner and size."""
_OBJECT = 20
"""Bytes of the object's name."""
_EXTENDED = 0x4000
_NAME_LENGTH = 0xFFF
_WITHOUT_PADDING = 4
"""The version whose entries are not padded, and share beginnings of names."""


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
        yield mode, digest, flags & ~_NAME_LENGTH, more, name


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Read a number of git's variable length; return it and the position behind it."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    return value, at + 1
