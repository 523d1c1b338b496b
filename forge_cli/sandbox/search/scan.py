"""The search without ripgrep: a program of its own, so that a pattern that never comes to an end can be stopped.

A search in a thread could not: Python's regular expressions let nothing else run, and nothing can interrupt them.
It is started with the root of a zone as its working directory and prints, for every file that matches, the path, a NUL
and the numbers of the lines; an empty path ends the answer.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from functools import cached_property
from itertools import islice

from forge_cli.sandbox.search.glob import matcher
from forge_cli.sandbox.search.ignore import Level

_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Scan:
    """What to look for, as the command line says it."""

    def __init__(self, start: str, patterns: tuple[str, str, str], include: str, size_max: int, lines_max: int) -> None:
        self.start = os.fsencode(start)
        plain, self.careful, self.literal = patterns
        self.pattern = re.compile(plain, re.MULTILINE)
        self.names = matcher(include) if include else None
        self.size_max = size_max
        self.lines_max = lines_max

    @cached_property
    def careful_pattern(self) -> re.Pattern[str]:
        return re.compile(self.careful, re.MULTILINE)

    def hits(self) -> Iterator[tuple[bytes, list[int]]]:
        alone = self.start and not os.path.isdir(self.start)
        for path in [self.start] if alone else self._files():
            if numbers := self._lines(path):
                yield path, numbers

    def _files(self) -> Iterator[bytes]:
        """Every file that is searched, sorted by name, a folder's files in its place."""
        pending = [(self.start, True, Level.above_folder(self.start))]
        while pending:
            path, is_folder, level = pending.pop()
            if not is_folder:
                yield path
                continue
            level = level.enter(path)
            pending += [(*found, level) for found in sorted(self._entries(path, level), reverse=True)]

    def _entries(self, folder: bytes, level: Level) -> Iterator[tuple[bytes, bool]]:
        try:
            entries = os.scandir(folder or b".")
        except OSError:
            return
        with entries:
            for entry in entries:
                path = folder + b"/" + entry.name if folder else entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                if not is_folder and not (entry.is_file(follow_symlinks=False) and self._is_named(path)):
                    continue
                if not level.leaves_out(path, is_folder=is_folder):
                    yield path, is_folder

    def _is_named(self, path: bytes) -> bool:
        below = path[len(self.start) + 1 :] if self.start else path
        return self.names is None or self.names.fullmatch(below) is not None

    def _lines(self, path: bytes) -> list[int]:
        data = read(path, self.size_max)
        if not data or self.literal.encode() not in data or b"\0" in data:
            return []
        try:
            text, pattern = data.decode(), self.pattern
        except UnicodeDecodeError:
            text, pattern = data.decode(errors="surrogateescape"), self.careful_pattern
        return list(islice(matching_lines(pattern, text, self.literal), self.lines_max))


def read(path: bytes, size_max: int) -> bytes | None:
    """What a regular file holds, unless it is too large."""
    try:
        descriptor = os.open(path, _READING)
    except OSError:
        return None
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode) or info.st_size > size_max:
            return None
        data = os.read(descriptor, size_max)
        while len(data) < info.st_size and (more := os.read(descriptor, size_max)):
            data += more
        return data
    except OSError:
        return None
    finally:
        os.close(descriptor)


def matching_lines(pattern: re.Pattern[str], text: str, literal: str = "") -> Iterator[int]:
    """The numbers of the lines that match; ``literal`` is in each of them, and is found faster than a pattern."""
    position, counted, number = 0, 0, 1
    while position < len(text):
        start = _next_line(pattern, text, position, literal)
        if start is None:
            return
        number += text.count("\n", counted, start)
        counted = start
        yield number
        newline = text.find("\n", start)
        position = newline + 1 if newline >= 0 else len(text)


def _next_line(pattern: re.Pattern[str], text: str, position: int, literal: str) -> int | None:
    """Some place in the next line that matches; nothing in the pattern matches a newline."""
    if not literal:
        found = pattern.search(text, position)
        behind = found is not None and found.start() == len(text) and text.endswith("\n")
        return None if found is None or behind else found.start()
    while (at := text.find(literal, position)) >= 0:
        newline = text.find("\n", at)
        end = newline if newline >= 0 else len(text)
        if pattern.search(text, text.rfind("\n", 0, at) + 1, end):
            return at
        position = end
    return None


def main() -> None:
    start, plain, careful, literal, include, size_max, lines_max = sys.argv[1:]
    for path, numbers in Scan(start, (plain, careful, literal), include, int(size_max), int(lines_max)).hits():
        tell(path, numbers)
    tell(b"", [])


def tell(path: bytes, numbers: list[int]) -> None:
    sys.stdout.buffer.write(path + b"\0" + ",".join(map(str, numbers)).encode() + b"\n")
    sys.stdout.buffer.flush()
