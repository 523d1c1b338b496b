"""Placing hunks where all their lines are, or errors that show the nearest place."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from functools import cached_property

from msgspec import Struct

from forge_cli.core.errors import ToolError
from forge_cli.core.text import visible
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.patches.model import Hunk

_MAX_CANDIDATES = 5
_CLOSING = (")", "]", "}")
_MAX_LINES_SHOWN = 8
_MAX_WIDTH = 160
# Bounds the time that an error about a large file takes.
_MAX_COMPARED = 3000
Alike = Callable[[str, Sequence[str], int], bool]
"""Returns True if a line of the file equals the wanted line with this number."""


class Form(Enum):
    """How strictly two lines are compared, in the order of attempts."""

    EXACT = "exact"
    RIGHT_STRIPPED = "right-stripped"
    STRIPPED = "stripped"

    def of(self, line: str) -> str:
        match self:
            case Form.EXACT:
                return line
            case Form.RIGHT_STRIPPED:
                return line.rstrip()
            case Form.STRIPPED:
                return line.strip()


class Spot(Struct, frozen=True):
    """A place for a hunk: the index of its first line, and how its lines were compared."""

    index: int
    form: Form


@dataclass
class Target:
    """The lines of a file, in which hunks are placed from top to bottom."""

    lines: Sequence[str]
    quiet: bool = False
    """True if the lines may contain secrets, so that errors must not repeat them."""
    done: int = 0
    """The first line below the hunks that are already placed."""
    drift: int = 0
    """The distance of the last hunk from the line it stated."""

    @cached_property
    def _forms(self) -> dict[Form, list[str]]:
        return {form: [form.of(line) for line in self.lines] for form in Form}

    def place(self, hunk: Hunk, name: str) -> Spot:
        """Return the place of the next hunk and reserve it; errors call the hunk ``name``."""
        spot = self._only_spot(hunk, name)
        if hunk.start is not None:
            self.drift = spot.index - (hunk.start - 1)
        self.done = spot.index + len(hunk.old)
        return spot

    def _only_spot(self, hunk: Hunk, name: str) -> Spot:
        if not hunk.old:
            return self._insertion(hunk, name)
        for form in Form:
            indexes = self._allowed(hunk, self._fitting(hunk, form, self.done))
            if len(indexes) == 1:
                return Spot(indexes[0], form)
            if indexes:
                return Spot(self._decided(hunk, indexes, form, name), form)
        raise ToolError(f"{name} does not fit: {self._misfit(hunk)}")

    def _insertion(self, hunk: Hunk, name: str) -> Spot:
        if not self.lines or (hunk.at_end and not hunk.anchors):
            return Spot(len(self.lines), Form.EXACT)
        raise ToolError(
            f"{name} only adds lines without context; add a line of the file above or below them"
        )

    def _fitting(self, hunk: Hunk, form: Form, start: int) -> list[int]:
        lines = self._forms[form]
        old = [form.of(line) for line in hunk.old]
        first = old[0]
        length = len(old)
        candidates = range(start, len(lines) - length + 1)
        return [
            index
            for index in candidates
            if lines[index] == first and lines[index : index + length] == old
        ]

    def _allowed(self, hunk: Hunk, indexes: list[int]) -> list[int]:
        """Return the places that are where the hunk states: at the end, or below its anchors."""
        if hunk.at_end:
            indexes = [index for index in indexes if index + len(hunk.old) == len(self.lines)]
        if hunk.anchors and indexes:
            around = blocks(self.lines, hunk.anchors)
            indexes = [index for index in indexes if any(index in block for block in around)]
        return indexes

    def _decided(self, hunk: Hunk, indexes: list[int], form: Form, name: str) -> int:
        """Return the stated place among several, if the lines match exactly there."""
        stated = None if hunk.start is None else hunk.start - 1 + self.drift
        if form is Form.EXACT and stated in indexes:
            return stated
        raise ToolError(
            f"{name} fits in several places ({list_lines(indexes)}); add lines of context"
        )

    def _misfit(self, hunk: Hunk) -> str:
        for form in Form:
            if early := [index for index in self._fitting(hunk, form, 0) if index < self.done]:
                places = list_lines(early)
                return f"its lines are at {places}, above the previous hunk; order hunks by line"
            if elsewhere := self._fitting(hunk, form, self.done):
                return f"its lines are at {list_lines(elsewhere)}, {self._why_not(hunk, elsewhere)}"
        below = " below the previous hunk" if self.done else ""
        near = ""
        if not self.quiet:
            near = describe_nearest(
                self.lines, hunk.old, self.done, name="the patch", alike=alike_stripped
            )
        return f"its lines are not in the file{below}, even with spaces around them ignored.{near}"

    def _why_not(self, hunk: Hunk, indexes: list[int]) -> str:
        if hunk.at_end and all(index + len(hunk.old) != len(self.lines) for index in indexes):
            return "not at the end of the file, as it states"
        return f"not below {' and '.join(map(shown, hunk.anchors))}, as it states"


def list_lines(indexes: Sequence[int]) -> str:
    """Return the first line numbers as text, like ``lines 3, 17 and 2 more``."""
    numbers = ", ".join(str(index + 1) for index in indexes[:_MAX_CANDIDATES])
    if len(indexes) > _MAX_CANDIDATES:
        numbers += f" and {len(indexes) - _MAX_CANDIDATES} more"
    return f"line{'s' if len(indexes) > 1 else ''} {numbers}"


def blocks(lines: Sequence[str], anchors: Sequence[str]) -> list[range]:
    """Return the blocks that the last anchor begins, inside blocks of the anchors before it."""
    found = [range(len(lines))]
    for anchor in anchors:
        at: set[int] = set()  # a line can be in several blocks: one inside another
        for block in found:
            at.update(index for index in block if lines[index].strip() == anchor)
        found = [_block(lines, index) for index in sorted(at)]
    return found


def _block(lines: Sequence[str], start: int) -> range:
    """Return the lines up to the first one not indented deeper.

    A line that begins no block is taken for the beginning of the rest of the file.
    """
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


def describe_nearest(
    lines: Sequence[str], wanted: Sequence[str], start: int = 0, *, name: str, alike: Alike
) -> str:
    """Return an error text with the nearest lines, or an empty text if nothing is near.

    ``name`` says where the wanted lines come from.
    """
    index = _best(lines, wanted, start)
    if index is None:
        return ""
    first = max(index, 0)
    last = min(max(index + len(wanted), first + 1), len(lines))
    wrong = next(
        (at for at in range(first, last) if not _fits(lines, wanted, at, index, alike)), first
    )
    begin = max(first, min(wrong - _MAX_LINES_SHOWN // 2, last - _MAX_LINES_SHOWN))
    shown = [
        f"{at + 1}: {visible(lines[at][:_MAX_WIDTH], keep=chr(9))}"
        for at in range(begin, min(begin + _MAX_LINES_SHOWN, last))
    ]
    missing = wanted[wrong - index] if 0 <= wrong - index < len(wanted) else ""
    how = ""
    if _without_blanks(lines[wrong]) == _without_blanks(missing):
        how = " in spaces"
    text = visible(missing[:_MAX_WIDTH], keep=chr(9))
    differs = f"\nLine {wrong + 1} differs{how}; {name} has: {text}"
    return "\nThe nearest lines are:\n" + "\n".join(shown) + differs


def _best(lines: Sequence[str], wanted: Sequence[str], start: int) -> int | None:
    """Return the place with most lines of the hunk, or else with a similar first line."""
    places: dict[str, list[int]] = defaultdict(list)
    for at in range(start, len(lines)):
        if text := _folded(lines[at]):
            places[text].append(at)
    votes: Counter[int] = Counter()
    for offset, text in enumerate(wanted):
        # Each common line votes for the place where the hunk would begin.
        votes.update(at - offset for at in places.get(_folded(text), ())[:_MAX_COMPARED])
    if votes:
        return min(votes, key=lambda index: (-votes[index], index))
    for offset, text in enumerate(wanted):
        if close := get_close_matches(_folded(text), list(places)[:_MAX_COMPARED], n=1):
            return places[close[0]][0] - offset
    return None


def _folded(text: str) -> str:
    return text.strip().casefold()


def _without_blanks(text: str) -> str:
    return "".join(text.split())


def _fits(lines: Sequence[str], wanted: Sequence[str], at: int, index: int, alike: Alike) -> bool:
    return 0 <= at - index < len(wanted) and alike(lines[at], wanted, at - index)


def alike_stripped(line: str, wanted: Sequence[str], number: int) -> bool:
    """Return True if both are equal except for surrounding spaces."""
    return line.strip() == wanted[number].strip()


def alike_exactly(line: str, wanted: Sequence[str], number: int) -> bool:
    """Return True if the line has the wanted text, which may begin and end within a line."""
    text = wanted[number]
    is_first = number == 0
    is_last = number == len(wanted) - 1
    if is_first and is_last:
        return text in line
    if is_first:
        return line.endswith(text)
    if is_last:
        return line.startswith(text)
    return line == text
