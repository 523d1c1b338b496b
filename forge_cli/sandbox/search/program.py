"""The search without ripgrep: a program of its own, so that a pattern that never ends can be stopped.

A search in a thread could not: Python's regular expressions let nothing else run, and nothing can interrupt them.
It is started as a script with a limit of lines, a pattern and files, and tells what it finds as ``rg --json`` does.
"""

from __future__ import annotations

import json
import os
import re
import sys
from itertools import islice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


def main() -> int:
    lines_max, pattern, *paths = sys.argv[1:]
    expression = re.compile(pattern)
    status = 0
    for path in paths:
        try:
            with open(os.open(path, _READING), "rb") as file:
                data = file.read()
        except OSError:
            status = 2
            continue
        if numbers := list(islice(matching_lines(expression, data), int(lines_max))):
            for number in numbers:
                tell("match", line_number=number)
            tell("end", path={"text": path}, binary_offset=data.index(0) if 0 in data else None)
            sys.stdout.flush()
    tell("summary")
    return status


def matching_lines(expression: re.Pattern[str], data: bytes) -> Iterator[int]:
    """The numbers of the lines that match."""
    lines = data.decode(errors="replace").removesuffix("\n").split("\n") if data else []
    return (number for number, line in enumerate(lines, 1) if expression.search(line))


def tell(kind: str, **data: object) -> None:
    sys.stdout.write(json.dumps({"type": kind, "data": data}) + "\n")


if __name__ == "__main__":
    sys.exit(main())
