"""Scratch: what programs leave behind for their own speed, by the names in ``scratch.yaml``."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import yaml

_ENTRY, _OBJECT = 40, 20
"""Bytes of an entry of git's index that say how the file was, and those of the object's name behind them."""
_EXTENDED, _NAME_LENGTH = 0x4000, 0xFFF
_WITHOUT_PADDING = 4


@cache
def _table() -> dict[str, list[str]]:
    found: dict[str, list[str]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
    return found


@cache
def _names() -> frozenset[str]:
    return frozenset(name.rstrip("/") for name in _table()["folders"])


def is_scratch(parts: Sequence[str]) -> bool:
    """Whether a path is, or lies in, what is always dropped."""
    return any(f"{around}/{name}" in _names() or name in _names() for around, name in pairwise(("", *parts)))


def may_be_refreshed(parts: Sequence[str]) -> bool:
    """Whether a file is one that is written again although it says the same."""
    return "/".join(parts[-2:]) in _table()["refreshed"]


def says_the_same(one: Path, other: Path) -> bool:
    """Whether two indexes of git have the same files staged, times aside; in doubt they do not."""
    try:
        return list(_staged(one.read_bytes())) == list(_staged(other.read_bytes()))
    except (OSError, struct.error, ValueError, IndexError):
        return False


def _staged(data: bytes) -> Iterator[tuple[int, bytes, int, int, bytes]]:
    """Of each entry its mode, object, flags and name (format of git's index, versions 2 to 4, SHA-1)."""
    magic, version, count = struct.unpack_from(">4sII", data)
    if magic != b"DIRC" or version not in (2, 3, _WITHOUT_PADDING):
        raise ValueError("not an index that is known")
    at, name = 12, b""
    for _ in range(count):
        start = at
        mode = struct.unpack_from(">I", data, at + 24)[0]
        digest = data[at + _ENTRY : at + _ENTRY + _OBJECT]
        flags = struct.unpack_from(">H", data, at + _ENTRY + _OBJECT)[0]
        at += _ENTRY + _OBJECT + 2
        more = 0
        if flags & _EXTENDED:
            more, at = struct.unpack_from(">H", data, at)[0], at + 2
        if version == _WITHOUT_PADDING:
            removed, at = _number(data, at)
            end = data.index(b"\0", at)
            name, at = name[: len(name) - removed] + data[at:end], end + 1
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
