"""Globs as ``.gitignore`` and ripgrep understand them, matched in a time that no glob can make long.

Part of the programs that search, which do without regular expressions and dataclasses where they can: importing them
takes as long as a search.
"""

from __future__ import annotations

from forge_cli.sandbox.search.tokens import (
    ALL_BELOW,
    ANY_FOLDERS,
    FOLDERS_BETWEEN,
    SEPARATOR,
    STAR,
    BadGlob,
    Braces,
    GlobToken,
    Unit,
    Wild,
    parse_tokens,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sized
    from typing import TypeVar

    T = TypeVar("T", bound=Sized)
    S = TypeVar("S", bound=Sized)

WAYS_MAX = 100
"""Ways that the braces of one glob may lead to."""

Chunk = bytes | list[Unit]
"""What is between two stars of a name: plain text, mostly."""
Name = list[Chunk]
Flat = list[Unit | Wild]
"""Tokens of which none is a brace."""


class Glob:
    """What a whole path has to match; a star never crosses a slash, two stars between slashes do."""

    def __init__(self, glob: str) -> None:
        tokens = parse_tokens(glob)
        self._ways = [] if tokens == [ANY_FOLDERS] else [_way(each) for each in _without_braces(tokens)]
        self._name, self._suffix = self._plain()

    def _plain(self) -> tuple[bytes | None, bytes | None]:
        """Most globs are for one name, or one extension, in any folder."""
        match self._ways:
            case [[[], [[bytes() as name]]]]:
                return name, None
            case [[[], [[b"", bytes() as suffix]]]]:
                return None, suffix
        return None, None

    def matches(self, path: bytes) -> bool:
        if self._name is not None:
            return path[path.rfind(b"/") + 1 :] == self._name
        if self._suffix is not None:
            return path.endswith(self._suffix)
        names = path.split(b"/")
        return not self._ways or any(_fits(way, names, _names_fit) for way in self._ways)


def _without_braces(tokens: list[GlobToken]) -> list[Flat]:
    """Every way to read a glob with braces, and with sets that a slash is a member of."""
    ways: list[Flat] = [[]]
    for token in tokens:
        choices = _choices(token)
        if len(ways) * len(choices) > WAYS_MAX:
            raise BadGlob(f"it has more than {WAYS_MAX} alternatives")
        ways = [joined for way in ways for choice in choices for joined in _joined(way, choice)]
    return ways


def _joined(way: Flat, choice: Flat) -> list[Flat]:
    """Any folders that start in the middle of a name, as a brace can say it, are none or end with a slash."""
    if not way or choice[:1] != [ANY_FOLDERS]:
        return [[*way, *choice]]
    return [[*way, *choice[1:]], [*way, STAR, FOLDERS_BETWEEN, *choice[1:]]]


def _choices(token: GlobToken) -> list[Flat]:
    if isinstance(token, Braces):
        return [way for branch in token.branches for way in _without_braces(branch)]
    if isinstance(token, Wild) or not token > SEPARATOR:
        return [[token]]
    return [[token - SEPARATOR], [SEPARATOR]]


def _way(tokens: Flat) -> list[list[Name]]:
    """The names of a path, in the groups that any number of folders may lie between."""
    groups: list[list[list[list[Unit]]]] = [[[[]]]]
    for token in tokens:
        if token is STAR:
            groups[-1][-1].append([])
        elif token is ANY_FOLDERS:
            groups = [[], [[[]]]]
        elif token is FOLDERS_BETWEEN:
            groups.append([[[]]])
        elif token is ALL_BELOW:
            groups.append([[[], []]])
        elif token == SEPARATOR:
            groups[-1].append([[]])
        elif isinstance(token, frozenset):
            groups[-1][-1][-1].append(token)
    return [[[_chunk(units) for units in name] for name in group] for group in groups]


def _chunk(units: list[Unit]) -> Chunk:
    return bytes(next(iter(unit)) for unit in units) if all(len(unit) == 1 for unit in units) else units


def _fits(groups: list[T], whole: S, fits_at: Callable[[T, S, int], bool]) -> bool:
    """Whether groups follow each other with anything between them, the first at the start and the last at the end.

    Each group in the middle is taken where it first fits: what comes behind then has the most room, so no other place
    has to be tried.
    """
    first, last = groups[0], groups[-1]
    end = len(whole) - len(last)
    if len(groups) == 1:
        return end == 0 and fits_at(first, whole, 0)
    at = len(first)
    if end < at or not fits_at(first, whole, 0) or not fits_at(last, whole, end):
        return False
    for group in groups[1:-1]:
        while at + len(group) <= end and not fits_at(group, whole, at):
            at += 1
        at += len(group)
    return at <= end


def _names_fit(group: list[Name], names: list[bytes], at: int) -> bool:
    return all(_fits(name, names[at + index], _chunk_fits) for index, name in enumerate(group))


def _chunk_fits(chunk: Chunk, name: bytes, at: int) -> bool:
    if isinstance(chunk, bytes):
        return name.startswith(chunk, at)
    return all(name[at + index] in unit for index, unit in enumerate(chunk))
