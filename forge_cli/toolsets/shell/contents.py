"""The contents of a file before and after a trial: its kind, and all differences."""

from __future__ import annotations

import mmap
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from forge_cli.core.text import visible
from forge_cli.files.difference import unified_diff

MADE_AT_MOST = 256 * 1024
"""Bytes of a new or deleted file that are shown; a larger one is shown as size and kind."""
CHANGED_AT_MOST = 1024 * 1024
"""Bytes of differences in an existing file that are shown, on either side."""
_HEAD, _CHARACTER = 4096, 4
"""Bytes of a large file that decide its kind, and the most bytes of one character."""
_CHUNK = 1 << 20
_CONTEXT_LINES, _CONTEXT_BYTES = 3, 60
_ODD = re.compile("[\x01-\x07\x0b\x0e-\x1a\x1c-\x1f\udc80-\udcff]")
"""Control characters that text lacks, unlike tabs or the escapes of colors; and bytes that are not
UTF-8, which ``surrogateescape`` decodes as surrogates."""
_ODD_PARTS, _NULS = 10, 10
"""Text may contain one unusual character in ten, which is shown escaped, and up to nine NULs per
character, so that NULs in a Makefile do not hide its contents."""
_SIGNATURES = {
    b"\x7fELF": "program",
    b"\xca\xfe\xba\xbe": "program",
    b"\xcf\xfa\xed\xfe": "program",
    b"MZ": "program",
    b"\x89PNG\r\n\x1a\n": "PNG image",
    b"\xff\xd8\xff": "JPEG image",
    b"GIF8": "GIF image",
    b"%PDF-": "PDF",
    b"PK\x03\x04": "zip archive",
    b"\x1f\x8b": "gzip archive",
    b"BZh": "bzip2 archive",
    b"\xfd7zXZ\0": "xz archive",
    b"\x28\xb5\x2f\xfd": "zstd archive",
    b"SQLite format 3\0": "SQLite database",
    b"!<arch>\n": "library",
    b"DIRC": "index of git",
    b"PACK": "pack of git",
}
_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_HUNK = re.compile(r"@@ -(\d+)((?:,\d+)?) \+(\d+)((?:,\d+)?) @@")


class FileContents(Struct, frozen=True):
    """The contents of one changed file, as they are shown."""

    kind: str
    """``text``, or a more precise description."""
    difference: Sequence[str] = ()
    """All differences as a unified diff; empty if the contents are not shown."""
    shown: bool = True
    """False if a person sees only the size and the kind."""


def compare_files(
    before: Path | None,
    after: Path | None,
    old_name: str,
    new_name: str,
    at_most: int = MADE_AT_MOST,
) -> FileContents:
    """Compare two files, None for a missing one; raise OSError if one cannot be read."""
    with _Bytes(before) as old, _Bytes(after) as new:
        return _compare(old, new, old_name, new_name, at_most)


def compare_bytes(
    before: bytes | None, after: bytes | None, old_name: str, new_name: str
) -> FileContents:
    """Compare two contents, None for a missing one."""
    return _compare(_Bytes(before), _Bytes(after), old_name, new_name, MADE_AT_MOST)


def _compare(old: _Bytes, new: _Bytes, old_name: str, new_name: str, at_most: int) -> FileContents:
    kind = _kind(new if new.is_there else old)
    if old.is_there and new.is_there and (was := _kind(old)) != kind:
        kind = f"{kind}, was {was}"
    if max(len(old.data), len(new.data)) > at_most:
        if not (old.is_there and new.is_there):
            return FileContents(kind, shown=False)
        return _compare_large(old, new, kind, (old_name, new_name))
    texts = (_text(bytes(old.data)), _text(bytes(new.data)))
    if texts[0] is None or texts[1] is None:
        return FileContents(kind, shown=False)
    return FileContents(kind, unified_diff(texts[0], texts[1], old_name, new_name))


class _Bytes:
    """The bytes of a file, mapped into memory if it is large; empty for a missing file."""

    def __init__(self, source: Path | bytes | None) -> None:
        self.is_there = source is not None
        self._path = source if isinstance(source, Path) else None
        self.data: bytes | mmap.mmap = source if isinstance(source, bytes) else b""

    def __enter__(self) -> _Bytes:
        if self._path is not None:
            with self._path.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(0)
                if size > _CHUNK:
                    self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                else:
                    self.data = file.read()
        return self

    def __exit__(self, *_: object) -> None:
        if isinstance(self.data, mmap.mmap):
            self.data.close()


def _kind(file: _Bytes) -> str:
    size = len(file.data)
    if size > MADE_AT_MOST:
        size = _HEAD
    head = bytes(file.data[:size])
    for signature, kind in _SIGNATURES.items():
        if head.startswith(signature):
            return kind
    if head[:2] in _MARKS:
        return "UTF-16 text"
    text = _text(head)
    if text is None:
        return "binary"
    if "\0" in text:
        return "text with NUL"
    if len(head) < len(file.data):
        text = text[:-_CHARACTER]  # the head of a large file may end inside of a character
    is_utf_8 = not any("\udc80" <= char <= "\udcff" for char in text)
    return "text" if is_utf_8 else "text that is not UTF-8"


def _text(data: bytes) -> str | None:
    """Decode bytes; escape invalid UTF-8, and return None for binary data."""
    if encoding := _MARKS.get(data[:2]):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            return None
    text = data.decode(errors="surrogateescape")
    letters = len(text) - text.count("\0")
    odd = len(_ODD.findall(text))
    is_text = odd * _ODD_PARTS <= letters and len(text) <= letters * _NULS
    return text if is_text else None


def _compare_large(old: _Bytes, new: _Bytes, kind: str, names: tuple[str, str]) -> FileContents:
    """Compare the parts of two large files between their common start and end."""
    head = _same_head(old.data, new.data)
    if head == len(old.data) == len(new.data):
        return FileContents(kind)
    tail = _same_tail(old.data, new.data, head)
    ends = (len(old.data) - tail, len(new.data) - tail)
    if max(ends) - head > CHANGED_AT_MOST or _text(bytes(old.data[:_HEAD])) is None:
        return FileContents(kind, shown=False)
    start = _lines_before(old.data, head)
    windows = [
        bytes(file.data[start : _lines_behind(file.data, end)])
        for file, end in zip((old, new), ends, strict=True)
    ]
    if max(map(len, windows)) <= CHANGED_AT_MOST + MADE_AT_MOST:
        return _compare_windows(windows, kind, names, _count_lines(old.data, start))
    return _compare_stretches((old, new), head, ends, kind, names)


def _compare_windows(
    windows: Sequence[bytes], kind: str, names: tuple[str, str], lines_above: int
) -> FileContents:
    """Compare whole lines, and number them as in the files."""
    before, after = map(_text, windows)
    if before is None or after is None:
        return FileContents(kind, shown=False)

    def shift(place: re.Match[str]) -> str:
        old = int(place[1]) + lines_above
        new = int(place[3]) + lines_above
        return f"@@ -{old}{place[2]} +{new}{place[4]} @@"

    lines = [_HUNK.sub(shift, line, count=1) for line in unified_diff(before, after, *names)]
    return FileContents(kind, lines)


def _compare_stretches(
    files: Sequence[_Bytes], head: int, ends: Sequence[int], kind: str, names: tuple[str, str]
) -> FileContents:
    """Show the differing parts of lines that are too long to be shown whole."""
    start = max(0, head - _CONTEXT_BYTES)
    lines = [
        f"--- {visible(names[0])}",
        f"+++ {visible(names[1])}",
        f"@@ inside of a long line, byte {head} @@",
    ]
    for sign, file, end in zip("-+", files, ends, strict=True):
        text = bytes(file.data[start : end + _CONTEXT_BYTES]).decode(errors="surrogateescape")
        if _text(bytes(file.data[start : end + _CONTEXT_BYTES])) is None:
            return FileContents(kind, shown=False)
        lines += [f"{sign}{visible(line, keep=chr(9))}" for line in text.split("\n")]
    return FileContents(kind, lines)


def _same_head(one: bytes | mmap.mmap, other: bytes | mmap.mmap) -> int:
    """Return the length of the common start."""
    at, most = 0, min(len(one), len(other))
    while at < most:
        size = min(_CHUNK, most - at)
        left, right = one[at : at + size], other[at : at + size]
        if left != right:
            return at + _first_difference(left, right)
        at += size
    return most


def _same_tail(one: bytes | mmap.mmap, other: bytes | mmap.mmap, head: int) -> int:
    """Return the length of the common end, not counting the common start."""
    at, most = 0, min(len(one), len(other)) - head
    while at < most:
        size = min(_CHUNK, most - at)
        left = one[len(one) - at - size : len(one) - at]
        right = other[len(other) - at - size : len(other) - at]
        if left != right:
            return at + _first_difference(left[::-1], right[::-1])
        at += size
    return most


def _first_difference(one: bytes, other: bytes) -> int:
    # Python compares slices much faster than single bytes.
    low, high = 0, len(one)
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _lines_before(data: bytes | mmap.mmap, at: int) -> int:
    """Return the offset where the context above a position begins."""
    for _ in range(_CONTEXT_LINES + 1):
        at = data.rfind(b"\n", 0, at)
        if at < 0:
            return 0
    return at + 1


def _lines_behind(data: bytes | mmap.mmap, at: int) -> int:
    for _ in range(_CONTEXT_LINES + 1):
        at = data.find(b"\n", at) + 1
        if at == 0:
            return len(data)
    return at


def _count_lines(data: bytes | mmap.mmap, end: int) -> int:
    return sum(data[at : min(end, at + _CHUNK)].count(b"\n") for at in range(0, end, _CHUNK))
