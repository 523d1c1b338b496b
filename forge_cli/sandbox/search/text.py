"""The program that searches for a plain text."""

from __future__ import annotations

import sys

from forge_cli.sandbox.search.scan import Scan


def lines_with(text: bytes, data: bytes, at_most: int) -> list[int]:
    """The numbers of the lines that have the text in them."""
    numbers: list[int] = []
    at, counted, number = data.find(text), 0, 1
    while at >= 0 and len(numbers) < at_most:
        number += data.count(b"\n", counted, at)
        numbers.append(number)
        newline = data.find(b"\n", at)
        if newline < 0:
            break
        counted, at = at, data.find(text, newline)
    return numbers


def main() -> None:
    start, include, size_max, lines_max, text = sys.argv[1:]
    wanted, at_most = text.encode(), int(lines_max)
    Scan(start, include, int(size_max)).answer(lambda data: lines_with(wanted, data, at_most))
