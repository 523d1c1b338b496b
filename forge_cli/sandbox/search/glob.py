"""Globs as ``.gitignore`` and ripgrep understand them, turned into regular expressions over bytes.

Part of the program in ``scan``, which does without dataclasses: importing them takes as long as a search.
"""

from __future__ import annotations

import re


class BadGlob(ValueError):
    """A glob that means nothing, such as an unclosed bracket."""


def matcher(glob: str) -> re.Pattern[bytes]:
    """What a whole path has to match; a star never crosses a slash, two stars between slashes do."""
    reader = _Reader(glob)
    while (char := reader.take()) is not None:
        _token(reader, char)
    if len(reader.branches) > 1:
        raise BadGlob("a brace is not closed")
    everything = reader.tokens == [_ANY_FOLDERS]
    return re.compile(b".*" if everything else b"".join(reader.tokens), re.DOTALL)


_SLASH, _NAME = b"/", b"[^/]*"
_ANY_FOLDERS, _FOLDERS_BETWEEN, _ALL_BELOW = b"(?:/?|.*/)", b"(?:/|/.*/)", b"/.*"


class _Reader:
    """Where the reading is; ``branches`` has the alternatives of every open brace, and first the glob itself."""

    def __init__(self, glob: str) -> None:
        self.glob = glob
        self.at = 0
        self.branches: list[list[list[bytes]]] = [[[]]]

    @property
    def tokens(self) -> list[bytes]:
        return self.branches[-1][-1]

    @property
    def next(self) -> str | None:
        return self.glob[self.at] if self.at < len(self.glob) else None

    @property
    def previous(self) -> str | None:
        """The character before the one that was taken last."""
        return self.glob[self.at - 2] if self.at > 1 else None

    @property
    def in_braces(self) -> bool:
        return len(self.branches) > 1

    def take(self) -> str | None:
        char = self.next
        self.at += char is not None
        return char


def _token(reader: _Reader, char: str) -> None:
    match char:
        case "?":
            reader.tokens.append(b"[^/]")
        case "*":
            _star(reader)
        case "[":
            reader.tokens.append(_set(reader))
        case "{":
            reader.branches.append([[]])
        case "}":
            if not reader.in_braces:
                raise BadGlob("a brace is not opened")
            alternatives = filter(None, map(b"".join, reader.branches.pop()))
            reader.tokens.append(b"(?:" + b"|".join(alternatives) + b")")
        case "," if reader.in_braces:
            reader.branches[-1].append([])
        case "\\":
            escaped = reader.take()
            if escaped is None:
                raise BadGlob("a backslash at the end escapes nothing")
            reader.tokens.append(re.escape(escaped.encode()))
        case _:
            reader.tokens.append(_SLASH if char == "/" else re.escape(char.encode()))


def _star(reader: _Reader) -> None:
    """One star is part of a name; two are whole folders where they stand between slashes or at an end."""
    before = reader.previous
    if reader.next != "*":
        reader.tokens.append(_NAME)
        return
    reader.take()
    after, first = reader.next, not reader.tokens
    closes = reader.in_braces and not first and after in (",", "}")
    if not (first or before == "/") or not (after in (None, "/") or closes):
        reader.tokens.extend([_NAME, _NAME])
        return
    if not closes:
        reader.take()
    if first:
        reader.tokens.append(_ANY_FOLDERS)
    elif reader.tokens[-1] not in (_ANY_FOLDERS, _ALL_BELOW):
        reader.tokens[-1] = _FOLDERS_BETWEEN if after == "/" else _ALL_BELOW


def _set(reader: _Reader) -> bytes:
    """Everything up to the closing bracket; one that comes first is a member, and so is a hyphen at an end."""
    negated = reader.next in ("!", "^")
    if negated:
        reader.take()
    members: list[tuple[str, str]] = []
    open_range, first = False, True
    while (char := reader.take()) != "]" or first:
        if char is None:
            raise BadGlob("a bracket is not closed")
        if char == "-" and not first and not open_range:
            open_range = True
        elif open_range:
            start = members.pop()[0]
            if start > char:
                raise BadGlob(f"the range {start}-{char} is empty")
            members.append((start, char))
            open_range = False
        else:
            members.append((char, char))
        first = False
    if open_range:
        members.append(("-", "-"))
    ranges = (_escaped(start) if start == end else _escaped(start) + b"-" + _escaped(end) for start, end in members)
    return b"[" + (b"^" if negated else b"") + b"".join(ranges) + b"]"


def _escaped(char: str) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in char.encode())
