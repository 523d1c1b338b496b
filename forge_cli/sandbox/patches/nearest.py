"""The lines of a file that come nearest to those that are looked for and are not there."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from difflib import get_close_matches

from forge_cli.core.text import visible

_SHOWN = 8
_WIDTH = 160
_LOOKED_AT = 3000
Alike = Callable[[str, Sequence[str], int], bool]
"""Whether a line of the file is the wanted line of that number."""


def nearest(lines: Sequence[str], wanted: Sequence[str], start: int = 0, *, name: str, alike: Alike) -> str:
    """A sentence with numbered lines, or nothing where nothing is near; ``name`` is what the wanted lines are from."""
    index = _best(lines, wanted, start)
    if index is None:
        return ""
    first = max(index, 0)
    last = min(max(index + len(wanted), first + 1), len(lines))
    wrong = next((at for at in range(first, last) if not _fits(lines, wanted, at, index, alike)), first)
    begin = max(first, min(wrong - _SHOWN // 2, last - _SHOWN))
    shown = [f"{at + 1}: {visible(lines[at][:_WIDTH], keep=chr(9))}" for at in range(begin, min(begin + _SHOWN, last))]
    missing = wanted[wrong - index] if 0 <= wrong - index < len(wanted) else ""
    how = " in its blanks" if _without_blanks(lines[wrong]) == _without_blanks(missing) else ""
    differs = f"\nLine {wrong + 1} is where it differs{how}; {name} has: {visible(missing[:_WIDTH], keep=chr(9))}"
    return "\nNearest is this:\n" + "\n".join(shown) + differs


def _best(lines: Sequence[str], wanted: Sequence[str], start: int) -> int | None:
    """Where most lines of the hunk are at their place; else where its first line is nearly there."""
    places: dict[str, list[int]] = defaultdict(list)
    for at in range(start, len(lines)):
        if text := _folded(lines[at]):
            places[text].append(at)
    votes = Counter(
        at - offset for offset, text in enumerate(wanted) for at in places.get(_folded(text), ())[:_LOOKED_AT]
    )
    if votes:
        return min(votes, key=lambda index: (-votes[index], index))
    for offset, text in enumerate(wanted):
        if close := get_close_matches(_folded(text), list(places)[:_LOOKED_AT], n=1):
            return places[close[0]][0] - offset
    return None


def _folded(text: str) -> str:
    return text.strip().casefold()


def _without_blanks(text: str) -> str:
    return "".join(text.split())


def _fits(lines: Sequence[str], wanted: Sequence[str], at: int, index: int, alike: Alike) -> bool:
    return 0 <= at - index < len(wanted) and alike(lines[at], wanted, at - index)


def alike_stripped(line: str, wanted: Sequence[str], number: int) -> bool:
    """Equal but for blanks around them."""
    return line.strip() == wanted[number].strip()


def alike_exactly(line: str, wanted: Sequence[str], number: int) -> bool:
    """Equal, as far as they are wanted: a text may begin and end within a line."""
    text, is_first, is_last = wanted[number], number == 0, number == len(wanted) - 1
    if is_first and is_last:
        return text in line
    return line.endswith(text) if is_first else line.startswith(text) if is_last else line == text
