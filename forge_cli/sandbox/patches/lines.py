"""The text of a patch as numbered lines, read one after the other."""

from __future__ import annotations

from forge_cli.core.errors import ToolError
from forge_cli.sandbox.patches.model import HunkLine

EMPTY = ("", "\r")
SIGNS = (" ", "-", "+")
_FENCE = "```"


class Lines:
    """The position of the reader; ``number`` counts from 1, and beyond the end every line is None."""

    def __init__(self, text: str) -> None:
        lines = text.split("\n")
        if all(line.endswith("\r") for line in lines if line):
            lines = [line.removesuffix("\r") for line in lines]
        filled = [index for index, line in enumerate(lines) if line.strip()]
        self._lines = lines
        self._next = filled[0] if filled else len(lines)
        if len(filled) > 1 and lines[filled[0]].startswith(_FENCE) and lines[filled[-1]].rstrip() == _FENCE:
            self._lines = lines[: filled[-1]]
            self._next = filled[1]

    @property
    def number(self) -> int:
        return self._next + 1

    @property
    def current(self) -> str | None:
        return self._lines[self._next] if self._next < len(self._lines) else None

    @property
    def following(self) -> str | None:
        return self._lines[self._next + 1] if self._next + 1 < len(self._lines) else None

    def take(self) -> str:
        self._next += 1
        return self._lines[self._next - 1]

    def skip_empty(self) -> None:
        while self.current in EMPTY:
            self.take()


def wrong(number: int, what: str) -> ToolError:
    return ToolError(f"line {number} of the patch: {what}")


def without_returns(lines: tuple[HunkLine, ...], number: int) -> tuple[HunkLine, ...]:
    """The lines of a hunk without the carriage returns of its file, which decides about line endings by itself."""
    returns = sum(line.text.endswith("\r") for line in lines)
    if returns in (0, len(lines)):
        return tuple(HunkLine(line.sign, line.text.removesuffix("\r")) for line in lines)
    raise wrong(number, "the hunk mixes lines with and without a carriage return; line endings cannot be patched")
