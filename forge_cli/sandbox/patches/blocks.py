"""What belongs to a line such as ``def f():``, read from indentation alone."""

from __future__ import annotations

from collections.abc import Sequence

_CLOSING = (")", "]", "}")


def blocks(lines: Sequence[str], anchors: Sequence[str]) -> list[range]:
    """The blocks of every line that the last anchor names, inside a block of the anchor before, and so on."""
    found = [range(len(lines))]
    for anchor in anchors:
        at = sorted({index for block in found for index in block if lines[index].strip() == anchor})
        found = [_block(lines, index) for index in at]
    return found


def _block(lines: Sequence[str], start: int) -> range:
    """From a line to the first one that is not indented deeper; everything below a line that begins no block."""
    depth = _depth(lines[start])
    index = _filled(lines, start + 1)
    if index is None or _depth(lines[index]) <= depth:
        return range(start, len(lines))
    while index is not None:
        following = _filled(lines, index + 1)
        continues = following is not None and _depth(lines[following]) > depth
        closes = lines[index].lstrip().startswith(_CLOSING)
        if _depth(lines[index]) <= depth and not (closes and continues):
            return range(start, index + 1)
        index = following
    return range(start, len(lines))


def _filled(lines: Sequence[str], start: int) -> int | None:
    return next((index for index in range(start, len(lines)) if lines[index].strip()), None)


def _depth(line: str) -> int:
    expanded = line.expandtabs()
    return len(expanded) - len(expanded.lstrip())
