"""Indentation of added lines, where a hunk was found only with other indentation than it has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

_TAB_WIDTHS = (4, 8, 2, 3)

Shift = Callable[[str], str | None]


@dataclass(frozen=True)
class Reindent:
    """One way from the indentation of a hunk to that of its file."""

    shift: Shift

    def line(self, text: str) -> str | None:
        """The line as the file would have it; None where the way does not say."""
        if not text.strip():
            return text
        indent = _indent(text)
        shifted = self.shift(indent)
        return None if shifted is None else shifted + text.removeprefix(indent)


def reindent(pairs: Iterable[tuple[str, str]]) -> Reindent | None:
    """The way, learnt from pairs of a hunk's line and the file's; None when no single one leads to all of them."""
    known = {(_indent(hunk), _indent(file)) for hunk, file in pairs if hunk.strip()}
    for shift in _shifts(known):
        if all(shift(hunk) == file for hunk, file in known):
            return Reindent(shift)
    return None


def in_place_of(gone: Iterable[tuple[str, str]], text: str) -> str | None:
    """A line as the file would have it, where it is indented as a line of the hunk that it replaces."""
    if not text.strip():
        return text
    indent = _indent(text)
    meant = {_indent(file) for hunk, file in gone if hunk.strip() and _indent(hunk) == indent}
    return meant.pop() + text.removeprefix(indent) if len(meant) == 1 else None


def _shifts(known: set[tuple[str, str]]) -> Iterator[Shift]:
    hunk, file = min(known, key=lambda pair: (len(pair[0]), len(pair[1])), default=("", ""))
    if file.endswith(hunk):
        yield partial(_deeper, file.removesuffix(hunk))
    if hunk.endswith(file):
        yield partial(_shallower, hunk.removesuffix(file))
    for width in _TAB_WIDTHS:
        yield partial(_with_tabs, width)
        yield partial(_with_spaces, width)


def _deeper(added: str, indent: str) -> str:
    return added + indent


def _shallower(removed: str, indent: str) -> str | None:
    return indent.removeprefix(removed) if indent.startswith(removed) else None


def _with_tabs(width: int, indent: str) -> str | None:
    tabs, rest = divmod(len(indent), width)
    return None if indent.strip(" ") else "\t" * tabs + " " * rest


def _with_spaces(width: int, indent: str) -> str:
    return indent.expandtabs(width)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
