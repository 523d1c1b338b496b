"""Line-by-line comparison of two texts with every difference visible."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import StringIO
from itertools import chain
from operator import eq

from forge_cli.core.text import counted, visible

_MAX_COMPARED = 20_000
"""The most differing lines to compare; more could take minutes."""
NO_NEWLINE = "\\ No newline at end of file"

# The widths at which terminals and editors show tabs.
_TAB_STOPS = (4, 8)
_LAST_BLANKS = re.compile(r" +$")


def unified_diff(before: str, after: str, old_name: str, new_name: str) -> list[str]:
    """Return a unified diff with invisible characters escaped; empty only for equal texts.

    Only a newline ends a line, as in editors and patches. If two different lines would look the
    same, tabs, backslashes and trailing blanks are escaped as well.
    """
    old = list(StringIO(before, newline="\n"))
    new = list(StringIO(after, newline="\n"))
    changes = list(_compare(old, new))
    if not changes:
        return []
    show = _show_exactly if _look_alike(changes) else _show
    lines = [f"--- {visible(old_name)}", f"+++ {visible(new_name)}"]
    for change in changes:
        lines += _with_end(change, show)
    return lines


def recap_differences(differences: Sequence[Sequence[str]]) -> str:
    """Return the size of unified diffs, one per file: ``2 files, +14 -3``."""
    signs: Counter[str] = Counter()
    for difference in differences:
        # The first two lines name the file.
        signs.update(line[:1] for line in difference[2:])
    return f"{counted(len(differences), 'file')}, +{signs['+']} -{signs['-']}"


def _compare(old: Sequence[str], new: Sequence[str]) -> Iterable[str]:
    """Return the hunks of a diff; very long texts become one hunk."""
    # Equal lines at both ends are skipped in C, because difflib is slow on large files.
    same = list(map(eq, old, new))
    head = same.index(False) if False in same else len(same)
    same = list(map(eq, reversed(old[head:]), reversed(new[head:])))
    tail = same.index(False) if False in same else len(same)
    gone = old[head : len(old) - tail]
    come = new[head : len(new) - tail]
    if len(gone) + len(come) <= _MAX_COMPARED:
        return list(difflib.unified_diff(old, new))[2:]
    place = f"@@ -{head + 1},{len(gone)} +{head + 1},{len(come)} @@\n"
    return chain([place], (f"-{line}" for line in gone), (f"+{line}" for line in come))


def _look_alike(changes: Iterable[str]) -> bool:
    lines = {change[1:].removesuffix("\n") for change in changes if change[0] in "-+"}
    for stop in _TAB_STOPS:
        looks = {_show(f"+{line}".expandtabs(stop)).rstrip() for line in lines}
        if len(looks) < len(lines):
            return True
    return False


def _show(line: str) -> str:
    return line[:1] + visible(line[1:], keep="\t")


def _show_exactly(line: str) -> str:
    blanks = _LAST_BLANKS.search(line, 1)
    end = blanks.start() if blanks else len(line)
    return line[:1] + visible(line[1:end].replace("\\", "\\\\")) + r"\x20" * (len(line) - end)


def _with_end(change: str, show: Callable[[str], str]) -> Iterator[str]:
    yield show(change.removesuffix("\n"))
    if not change.endswith("\n"):
        yield NO_NEWLINE
