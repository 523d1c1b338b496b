"""Some lines of a file, found without having all of the file in memory."""

from __future__ import annotations

import os
from typing import BinaryIO

from forge_cli.core.errors import ToolError
from forge_cli.core.text import counted

CHUNK = 1024 * 1024


def read_lines(file: BinaryIO, first: int, count: int | None, *, at_most: int, name: str) -> bytes:
    """``count`` lines from the ``first`` on, counted from 1, or all from there; a line ends with a newline.

    A ToolError where there are fewer lines than that, or where they have more than ``at_most`` bytes.
    """
    before = _skip_lines(file, first - 1)
    if before < first - 1 or (first > 1 and _at_end(file)):
        raise ToolError(f"{name} has {counted(before, 'line')}, so there is nothing at line {first}")
    data = _take_lines(file, count, at_most)
    if len(data) > at_most:
        raise ToolError(f"these lines of {name} have more than {at_most} bytes; read fewer lines at a time")
    return data


def _skip_lines(file: BinaryIO, count: int) -> int:
    """Go to the end of so many lines; how many there were, where the file has fewer."""
    seen, last = 0, b"\n"
    while seen < count and (chunk := file.read(CHUNK)):
        newlines = chunk.count(b"\n")
        if seen + newlines >= count:
            end = _end_of_line(chunk, count - seen)
            file.seek(end - len(chunk), os.SEEK_CUR)
            return count
        seen, last = seen + newlines, chunk[-1:]
    return seen if last == b"\n" else seen + 1


def _take_lines(file: BinaryIO, count: int | None, at_most: int) -> bytes:
    if count is None:
        return file.read(at_most + 1)
    found, size = [], 0
    while count > 0 and size <= at_most and (chunk := file.read(CHUNK)):
        newlines = chunk.count(b"\n")
        chunk = chunk[: _end_of_line(chunk, count)] if newlines >= count else chunk
        found.append(chunk)
        count, size = count - newlines, size + len(chunk)
    return b"".join(found)


def _end_of_line(chunk: bytes, number: int) -> int:
    end = 0
    for _ in range(number):
        end = chunk.index(b"\n", end) + 1
    return end


def _at_end(file: BinaryIO) -> bool:
    if file.read(1):
        file.seek(-1, os.SEEK_CUR)
        return False
    return True
