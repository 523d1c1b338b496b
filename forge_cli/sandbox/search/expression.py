"""The program that searches for a regular expression."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cached_property
from itertools import islice

from forge_cli.sandbox.search.scan import Scan


class Expression:
    """A pattern, for text and for what has bytes that are not text; ``literal`` is in every line that matches.

    With ``any_case`` it is there in some case or other, which is easy to tell only where all of a text is ASCII.
    """

    def __init__(self, plain: str, careful: str, literal: str, *, any_case: bool = False, at_most: int) -> None:
        self.pattern = re.compile(plain, re.MULTILINE)
        self.careful = careful
        self.literal = literal
        self.any_case = any_case
        self.at_most = at_most
        self._wanted = literal.encode()

    @cached_property
    def careful_pattern(self) -> re.Pattern[str]:
        return re.compile(self.careful, re.MULTILINE)

    def lines(self, data: bytes) -> list[int]:
        """The numbers of the lines that match."""
        literal = self.literal if not self.any_case or data.isascii() else ""
        if literal and self._wanted not in (data.lower() if self.any_case else data):
            return []
        try:
            text, pattern = data.decode(), self.pattern
        except UnicodeDecodeError:
            text, pattern = data.decode(errors="surrogateescape"), self.careful_pattern
        within = text.lower() if literal and self.any_case else text
        return list(islice(matching_lines(pattern, text, literal, within), self.at_most))


def matching_lines(pattern: re.Pattern[str], text: str, literal: str = "", within: str | None = None) -> Iterator[int]:
    """The numbers of the lines that match; where there is a literal, only lines that have it ``within`` are tried."""
    within = text if within is None else within
    position, counted, number = 0, 0, 1
    while position < len(text):
        start = _next_line(pattern, text, position, literal, within)
        if start is None:
            return
        number += text.count("\n", counted, start)
        counted = start
        yield number
        newline = text.find("\n", start)
        position = newline + 1 if newline >= 0 else len(text)


def _next_line(pattern: re.Pattern[str], text: str, position: int, literal: str, within: str) -> int | None:
    """Some place in the next line that matches; nothing in the pattern matches a newline."""
    if not literal:
        found = pattern.search(text, position)
        behind = found is not None and found.start() == len(text) and text.endswith("\n")
        return None if found is None or behind else found.start()
    while (at := within.find(literal, position)) >= 0:
        newline = text.find("\n", at)
        end = newline if newline >= 0 else len(text)
        if pattern.search(text, text.rfind("\n", 0, at) + 1, end):
            return at
        position = end
    return None


def main() -> None:
    start, include, size_max, lines_max, plain, careful, literal, any_case = sys.argv[1:]
    wanted = Expression(plain, careful, literal, any_case=bool(any_case), at_most=int(lines_max))
    Scan(start, include, int(size_max)).answer(wanted.lines)
