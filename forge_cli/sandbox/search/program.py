"""The search engine without ripgrep: a separate program, so that it can be stopped.

A thread could not be stopped: Python's regular expressions block all others and cannot be
interrupted. The arguments are a limit of lines, a pattern and files; the output is like that of
``rg --json``.
"""

from __future__ import annotations

import json
import os
import re
import sys

# Opening a pipe or a terminal must not block, and links are not followed.
_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_PIECE = 1 << 16


def main() -> int:
    """Search the files, and return the exit code."""
    lines_max, pattern, *paths = sys.argv[1:]
    search = re.compile(pattern).search
    status = 0
    for path in paths:
        try:
            data = read(path)
        except OSError:
            status = 2
            continue
        lines = data.decode(errors="replace").removesuffix("\n").split("\n") if data else []
        found = [number for number, line in enumerate(lines, 1) if search(line)]
        numbers = found[: int(lines_max)]
        if numbers:
            for number in numbers:
                tell("match", line_number=number)
            tell("end", path={"text": path}, binary_offset=data.index(0) if 0 in data else None)
            sys.stdout.flush()
    tell("summary")
    return status


def read(path: str) -> bytes:
    """Return the content of a file, without a file object, which takes longer than the search."""
    descriptor = os.open(path, _READING)
    try:
        return b"".join(iter(lambda: os.read(descriptor, _PIECE), b""))
    finally:
        os.close(descriptor)


def tell(kind: str, **data: object) -> None:
    """Write a message as a line of JSON."""
    sys.stdout.write(json.dumps({"type": kind, "data": data}) + "\n")


if __name__ == "__main__":
    sys.exit(main())
