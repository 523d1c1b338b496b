"""The lines of a file that come nearest to those of a hunk that does not fit."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from difflib import get_close_matches

from forge_cli.core.text import visible

_SHOWN = 8
_WIDTH = 160
_LOOKED_AT = 3000


def nearest(lines: Sequence[str], wanted: Sequence[str], start: int) -> str:
    """A sentence with numbered lines, or nothing where nothing is near."""
    index = _best(lines, wanted, start)
    if index is None:
        return ""
    first = max(index, 0)
    last = min(max(index + len(wanted), first + 1), len(lines))
    wrong = next((at for at in range(first, last) if not _alike(lines, wanted, at, index)), first)
    begin = max(first, min(wrong - _SHOWN // 2, last - _SHOWN))
    shown = [f"{at + 1}: {visible(lines[at][:_WIDTH], keep=chr(9))}" for at in range(begin, min(begin + _SHOWN, last))]
    missing = wanted[wrong - index] if 0 <= wrong - index < len(wanted) else ""
    differs = f"\nLine {wrong + 1} is where it differs; the patch has: {visible(missing[:_WIDTH], keep=chr(9))}"
    return "\nNearest is this:\n" + "\n".join(shown) + differs


def _best(lines: Sequence[str], wanted: Sequence[str], start: int) -> int | None:
    """Where most lines of the hunk are at their place; else where its first line is nearly there."""
    places: dict[str, list[int]] = defaultdict(list)
    for at in range(start, len(lines)):
        if text := lines[at].strip():
            places[text].append(at)
    votes = Counter(
        at - offset for offset, text in enumerate(wanted) for at in places.get(text.strip(), ())[:_LOOKED_AT]
    )
    if votes:
        return min(votes, key=lambda index: (-votes[index], index))
    for offset, text in enumerate(wanted):
        if close := get_close_matches(text.strip(), list(places)[:_LOOKED_AT], n=1):
            return places[close[0]][0] - offset
    return None


def _alike(lines: Sequence[str], wanted: Sequence[str], at: int, index: int) -> bool:
    return 0 <= at - index < len(wanted) and lines[at].strip() == wanted[at - index].strip()
