"""The index of git: what is staged, without the times by which git knows that a file is as it was."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

_ENTRY, _OBJECT = 40, 20
"""Bytes of an entry of git's index that say how the file was, and those of the object's name behind them."""
_EXTENDED, _NAME_LENGTH = 0x4000, 0xFFF
_WITHOUT_PADDING = 4


def says_the_same(one: Path, other: Path) -> bool:
    """Whether two indexes of git have the same files staged, times aside; in doubt they do not."""
    try:
        return list(staged_entries(one.read_bytes())) == list(staged_entries(other.read_bytes()))
    except (OSError, struct.error, ValueError, IndexError):
        return False


def staged_entries(data: bytes) -> Iterator[tuple[int, bytes, int, int, bytes]]:
    """Of each entry in git's index its mode, object, flags, further flags and name (versions 2 to 4, SHA-1)."""
    magic, version, count = struct.unpack_from(">4sII", data)
    if magic != b"DIRC" or version not in (2, 3, _WITHOUT_PADDING):
        raise ValueError("not an index that is known")
    at = 12
    name = b""
    for _ in range(count):
        start = at
        mode = struct.unpack_from(">I", data, at + 24)[0]
        digest = data[at + _ENTRY : at + _ENTRY + _OBJECT]
        flags = struct.unpack_from(">H", data, at + _ENTRY + _OBJECT)[0]
        at += _ENTRY + _OBJECT + 2
        more = 0
        if flags & _EXTENDED:
            more = struct.unpack_from(">H", data, at)[0]
            at += 2
        if version == _WITHOUT_PADDING:
            removed, at = _number(data, at)
            end = data.index(b"\0", at)
            name = name[: len(name) - removed] + data[at:end]
            at = end + 1
        else:
            end = data.index(b"\0", at)
            name = data[at:end]
            at = start + ((end - start) // 8 + 1) * 8
        yield mode, digest, flags & ~_NAME_LENGTH, more, name


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of git's variable length, and where it ends."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    return value, at + 1
