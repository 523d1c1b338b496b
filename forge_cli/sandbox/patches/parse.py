"""Parsing patches: the format from ``*** Begin Patch`` to ``*** End Patch``, or a unified diff."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from forge_cli.core.errors import ToolError
from forge_cli.core.zones import Zone
from forge_cli.sandbox.patches import unified
from forge_cli.sandbox.patches.model import (
    EMPTY,
    SIGNS,
    Add,
    Delete,
    Hunk,
    HunkLine,
    Lines,
    Operation,
    Patch,
    Sign,
    Update,
    patch_error,
    without_returns,
)
from forge_cli.sandbox.patches.unified import HEADER

BEGIN = "*** Begin Patch"
END = "*** End Patch"
_ADD = "*** Add File:"
_UPDATE = "*** Update File:"
_DELETE = "*** Delete File:"
_MOVE = "*** Move to:"
_LAST = "*** End of File"
_REMEDY = (
    "start with '*** Begin Patch' "
    "(then '*** Add File: PATH', '*** Update File: PATH' or '*** Delete File: PATH')"
)


def _parse_envelope(lines: Lines) -> Iterator[Operation]:
    lines.take()
    while True:
        lines.skip_empty()
        line = lines.current
        if line is None:
            raise patch_error(lines.number, f"{END!r} is missing; send the whole patch")
        if line.rstrip() == END:
            break
        yield _operation(lines, line)
    lines.take()
    lines.skip_empty()
    if lines.current is not None:
        raise patch_error(lines.number, f"text after {END!r}; put all files into one patch")


def _operation(lines: Lines, line: str) -> Operation:
    number = lines.number
    if line.startswith(_ADD):
        return Add(_path(lines, _ADD), _content(lines))
    if line.startswith(_DELETE):
        return Delete(_path(lines, _DELETE))
    if not line.startswith(_UPDATE):
        raise patch_error(
            number,
            f"expected '{_ADD} PATH', '{_UPDATE} PATH', '{_DELETE} PATH' or '{END}', not {line!r}",
        )
    path = _path(lines, _UPDATE)
    target = _path(lines, _MOVE) if (lines.current or "").startswith(_MOVE) else None
    hunks = tuple(_hunks(lines))
    if not hunks and target is None:
        raise patch_error(
            number, "the update has no hunk; write '@@', then lines that begin with ' ', '-' or '+'"
        )
    return Update(path, hunks, target)


def _path(lines: Lines, marker: str) -> str:
    number = lines.number
    path = lines.take().removeprefix(marker).strip()
    if not path:
        raise patch_error(number, f"{marker!r} needs a path after it")
    return path


def _content(lines: Lines) -> str:
    content: list[str] = []
    while (line := lines.current) is not None and line.startswith("+"):
        content.append(lines.take()[1:])
    lines.skip_empty()
    if (line := lines.current) is not None and not line.startswith("***"):
        raise patch_error(lines.number, f"every line of a new file begins with '+', not {line!r}")
    return "".join(f"{text}\n" for text in content)


def _hunks(lines: Lines) -> Iterator[Hunk]:
    first = True
    while True:
        lines.skip_empty()
        line = lines.current
        if line is None or line.startswith("***"):
            return
        if not first and not line.startswith("@@"):
            raise patch_error(
                lines.number, f"expected '@@', '{END}' or the next file, not {line!r}"
            )
        yield _hunk(lines)
        first = False


def _hunk(lines: Lines) -> Hunk:
    number = lines.number
    anchors: list[str] = []
    start = None
    while (line := lines.current) is not None and line.startswith("@@"):
        if header := HEADER.match(line):
            start = int(header["old"])
        elif anchor := line[2:].strip():
            anchors.append(anchor)
        lines.take()
    body = _body(lines)
    if all(line.sign == " " for line in body):
        raise patch_error(number, "the hunk changes nothing; mark lines with '-' or '+'")
    at_end = (lines.current or "").rstrip() == _LAST
    if at_end:
        lines.take()
    return Hunk(number, without_returns(tuple(body), number), tuple(anchors), start, at_end)


def _body(lines: Lines) -> list[HunkLine]:
    """Read lines up to the next marker.

    An empty line belongs to the file, unless only the marker follows.
    """
    body: list[HunkLine] = []
    empty: list[HunkLine] = []
    while (line := lines.current) is not None and not line.startswith(("***", "@@")):
        if line in EMPTY:
            empty.append(HunkLine(" ", line))
        elif line[0] in SIGNS:
            # Type checkers do not narrow a text by ``in``.
            body += [*empty, HunkLine(cast(Sign, line[0]), line[1:])]
            empty.clear()
        else:
            raise patch_error(
                lines.number, f"every line of a hunk begins with ' ', '-' or '+', not {line!r}"
            )
        lines.take()
    return body


def parse_patch(text: str, zones: Sequence[Zone] = ()) -> Patch:
    """Parse a patch; ``zones`` resolve ``a/ZONE/file`` in a diff if no path is relative."""
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise ToolError("the patch contains half of a surrogate pair; remove it")
    lines = Lines(text)
    first = lines.current
    if first is None:
        raise ToolError(f"the patch is empty; {_REMEDY}")
    if first.rstrip() == BEGIN:
        operations = tuple(_parse_envelope(lines))
    elif unified.is_header(first):
        operations = tuple(unified.parse(lines, zones))
    else:
        raise ToolError(
            f"line {lines.number} does not begin a patch; {_REMEDY}, "
            "or with '--- PATH' of a unified diff"
        )
    if not operations:
        raise ToolError("the patch names no file; name a file to add, update or delete")
    return Patch(operations)
