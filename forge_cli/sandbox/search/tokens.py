"""The tokens of a glob, as its text is read.

Part of the programs that search, as ``glob`` is.
"""

from __future__ import annotations

DEPTH_MAX = 10
Unit = frozenset[int]
"""What one byte of a name may be."""
SEPARATOR = frozenset(b"/")
_ANY_BYTE = frozenset(range(256))


class BadGlob(ValueError):
    """A glob that means nothing, such as an unclosed bracket."""


class Wild:
    """What stands for more than one byte."""


STAR, ANY_FOLDERS, FOLDERS_BETWEEN, ALL_BELOW = Wild(), Wild(), Wild(), Wild()


class Braces:
    """Alternatives; one of them is there."""

    def __init__(self) -> None:
        self.branches: list[list[GlobToken]] = [[]]


GlobToken = Unit | Wild | Braces


class _Reader:
    """Where the reading is; ``braces`` are those that are open, and first the glob itself."""

    def __init__(self, glob: str) -> None:
        self.glob = glob
        self.at = 0
        self.braces = [Braces()]

    @property
    def tokens(self) -> list[GlobToken]:
        return self.braces[-1].branches[-1]

    @property
    def next(self) -> str | None:
        return self.glob[self.at] if self.at < len(self.glob) else None

    @property
    def previous(self) -> str | None:
        """The character before the one that was taken last."""
        return self.glob[self.at - 2] if self.at > 1 else None

    @property
    def in_braces(self) -> bool:
        return len(self.braces) > 1

    def take(self) -> str | None:
        char = self.next
        self.at += char is not None
        return char

    def add(self, text: str) -> None:
        self.tokens.extend(frozenset([byte]) for byte in text.encode())


def parse_tokens(glob: str) -> list[GlobToken]:
    reader = _Reader(glob)
    while (char := reader.take()) is not None:
        _token(reader, char)
    if reader.in_braces:
        raise BadGlob("a brace is not closed")
    return reader.tokens


def _token(reader: _Reader, char: str) -> None:
    match char:
        case "?":
            reader.tokens.append(_ANY_BYTE - SEPARATOR)
        case "*":
            _star(reader)
        case "[":
            reader.tokens.append(_set(reader))
        case "{":
            if len(reader.braces) > DEPTH_MAX:
                raise BadGlob(f"more than {DEPTH_MAX} braces inside each other")
            reader.braces.append(Braces())
        case "}":
            if not reader.in_braces:
                raise BadGlob("a brace is not opened")
            closed = reader.braces.pop()
            closed.branches = [branch for branch in closed.branches if branch] or [[]]
            reader.tokens.append(closed)
        case "," if reader.in_braces:
            reader.braces[-1].branches.append([])
        case "\\":
            escaped = reader.take()
            if escaped is None:
                raise BadGlob("a backslash at the end escapes nothing")
            reader.add(escaped)
        case _:
            reader.add(char)


def _star(reader: _Reader) -> None:
    """One star is part of a name; two are whole folders where they stand between slashes or at an end."""
    before = reader.previous
    if reader.next != "*":
        reader.tokens.append(STAR)
        return
    reader.take()
    after, first = reader.next, not reader.tokens
    closes = reader.in_braces and not first and after in (",", "}")
    if not (first or before == "/") or not (after in (None, "/") or closes):
        reader.tokens.append(STAR)
        return
    if not closes:
        reader.take()
    if first:
        reader.tokens.append(ANY_FOLDERS)
    elif reader.tokens[-1] not in (ANY_FOLDERS, ALL_BELOW):
        reader.tokens[-1] = FOLDERS_BETWEEN if after == "/" else ALL_BELOW


def _set(reader: _Reader) -> Unit:
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
    found = frozenset(byte for start, end in members for byte in _bytes(start.encode(), end.encode()))
    return _ANY_BYTE - found if negated else found


def _bytes(start: bytes, end: bytes) -> set[int]:
    """The bytes of a range; those of a character that takes several are members one by one."""
    return set(start) if start == end else {*start[:-1], *range(start[-1], end[0] + 1), *end[1:]}
