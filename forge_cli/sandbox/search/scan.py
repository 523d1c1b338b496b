"""The search without ripgrep: programs of their own, so that a pattern that never comes to an end can be stopped.

A search in a thread could not: Python's regular expressions let nothing else run, and nothing can interrupt them.
Such a program is started with the root of a zone as its working directory and prints, for every file that matches, the
path, a NUL and the numbers of the lines, or why the file was left out; an empty path ends the answer.
"""

from __future__ import annotations

import os
import stat
import sys

from forge_cli.sandbox.search.glob import Glob
from forge_cli.sandbox.search.ignore import FILE, IgnoreLevel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Find = Callable[[bytes], list[int]]

_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_RULES = FILE.encode()
_SMALL = 64 * 1024
"""Bytes that are read at first: most files have fewer, and nothing more has to be asked about those."""
LARGE, UNREADABLE, BINARY = "large", "unreadable", "binary"


class LeftOut(Exception):
    """A file is not searched; the only argument is why."""


class Scan:
    """Where to look: a file, or the files below a folder that an include allows, in the order of their names."""

    def __init__(self, start: str, include: str, size_max: int) -> None:
        self.start = os.fsencode(start)
        self.names = Glob(include) if include else None
        self.size_max = size_max

    def answer(self, find: Find) -> None:
        """Tell the lines that ``find`` gives for the content of each file; one that is binary has none."""
        for path in self.files():
            try:
                data = read(path, self.size_max)
            except LeftOut as left:
                tell(path, left.args[0])
                continue
            if data and (numbers := find(data)):
                tell(path, BINARY if b"\0" in data else ",".join(map(str, numbers)))
        tell(b"", "")

    def files(self) -> Iterator[bytes]:
        if self.start and not os.path.isdir(self.start):
            if stat.S_ISREG(os.lstat(self.start).st_mode):
                yield self.start
            return
        pending = [(self.start, True, IgnoreLevel.above_folder(self.start))]
        while pending:
            path, is_folder, level = pending.pop()
            if is_folder:
                pending += self._inside(path, level)
            else:
                yield path

    def _inside(self, folder: bytes, level: IgnoreLevel) -> list[tuple[bytes, bool, IgnoreLevel]]:
        """What is to be looked at in a folder, last name first."""
        try:
            with os.scandir(folder or b".") as found:
                entries = [(entry.name, entry.is_dir(follow_symlinks=False), entry) for entry in found]
        except OSError:
            tell(folder, UNREADABLE)
            return []
        if any(name == _RULES for name, _, _ in entries):
            level = level.enter(folder)
        prefix = folder + b"/" if folder else b""
        inside = [
            (prefix + name, is_folder, level)
            for name, is_folder, entry in entries
            if (is_folder or (self._is_named(prefix + name) and entry.is_file(follow_symlinks=False)))
            and not level.leaves_out(prefix + name, is_folder=is_folder)
        ]
        inside.sort(reverse=True)  # no two have the same path, so nothing else is compared
        return inside

    def _is_named(self, path: bytes) -> bool:
        if self.names is None:
            return True
        return self.names.matches(path[len(self.start) + 1 :] if self.start else path)


def read(path: bytes, size_max: int) -> bytes | None:
    """What a file holds; None for one that is gone, and LeftOut where it is too large or cannot be read."""
    try:
        descriptor = os.open(path, _READING)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LeftOut(UNREADABLE) from error
    try:
        data = os.read(descriptor, _SMALL)
        if len(data) < _SMALL:
            return data
        size = os.fstat(descriptor).st_size
        if size > size_max:
            raise LeftOut(LARGE)
        while len(data) < size and (more := os.read(descriptor, size - len(data))):
            data += more
        return data
    except OSError as error:
        raise LeftOut(UNREADABLE) from error
    finally:
        os.close(descriptor)


def tell(path: bytes, found: str) -> None:
    sys.stdout.buffer.write(path + b"\0" + found.encode() + b"\n")
    sys.stdout.buffer.flush()
