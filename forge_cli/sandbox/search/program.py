"""The search without ripgrep: a program of its own, so that a pattern that never ends can be stopped.

A search in a thread could not: Python's regular expressions let nothing else run, and nothing can interrupt them.
It is started as a script with a limit of lines, a pattern and files, and tells what it finds as ``rg --json`` does.
"""

from __future__ import annotations

import json
import os
import re
import sys

_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_PIECE = 1 << 16


def main() -> int:
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
        if numbers := [number for number, line in enumerate(lines, 1) if search(line)][
            : int(lines_max)
        ]:
            for number in numbers:
                tell("match", line_number=number)
            tell("end", path={"text": path}, binary_offset=data.index(0) if 0 in data else None)
            sys.stdout.flush()
    tell("summary")
    return status


def read(path: str) -> bytes:
    """Most files are small: an object for each would take longer than the search."""
    descriptor = os.open(path, _READING)
    try:
        return b"".join(iter(lambda: os.read(descriptor, _PIECE), b""))
    finally:
        os.close(descriptor)


def tell(kind: str, **data: object) -> None:
    sys.stdout.write(json.dumps({"type": kind, "data": data}) + "\n")


if __name__ == "__main__":
    sys.exit(main())
