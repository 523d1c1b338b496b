"""Two texts compared line by line, with every difference visible."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import StringIO
from itertools import chain
from operator import eq

from forge_cli.core.text import counted, visible

COMPARED = 20_000
"""Lines that differ; beyond these the comparison itself could take minutes."""
NO_NEWLINE = "\\ No newline at end of file"

_TAB_STOPS = (4, 8)
_LAST_BLANKS = re.compile(r" +$")


def unified_diff(before: str, after: str, old_name: str, new_name: str) -> list[str]:
    """A unified diff with every character escaped that cannot be seen; empty only where nothing differs.

    Only a newline ends a line, as for those who read and patch files. Where two different lines would look the same,
    tabs, backslashes and blanks at the end are escaped as well.
    """
    old, new = (list(StringIO(text, newline="\n")) for text in (before, after))
    changes = list(_compare(old, new))
    if not changes:
        return []
    show = _show_exactly if _look_alike(changes) else _show
    lines = [f"--- {visible(old_name)}", f"+++ {visible(new_name)}"]
    for change in changes:
        lines += _with_end(change, show)
    return lines


def recap_differences(differences: Sequence[Sequence[str]]) -> str:
    """How much unified diffs change, one a file: ``2 files, +14 -3``."""
    signs: Counter[str] = Counter()
    for difference in differences:
        signs.update(line[:1] for line in difference[2:])  # behind the two lines that name the file
    return f"{counted(len(differences), 'file')}, +{signs['+']} -{signs['-']}"


def _compare(old: Sequence[str], new: Sequence[str]) -> Iterable[str]:
    """The hunks; texts too long to compare line by line in a moment become one hunk of what differs."""
    same = list(map(eq, old, new))
    head = same.index(False) if False in same else len(same)
    same = list(map(eq, reversed(old[head:]), reversed(new[head:])))
    tail = same.index(False) if False in same else len(same)
    gone, come = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(gone) + len(come) <= COMPARED:
        return list(difflib.unified_diff(old, new))[2:]
    place = f"@@ -{head + 1},{len(gone)} +{head + 1},{len(come)} @@\n"
    return chain([place], (f"-{line}" for line in gone), (f"+{line}" for line in come))


def _look_alike(changes: Iterable[str]) -> bool:
    lines = {change[1:].removesuffix("\n") for change in changes if change[0] in "-+"}
    looks = ({_show(f"+{line}".expandtabs(stop)).rstrip() for line in lines} for stop in _TAB_STOPS)
    return any(len(each) < len(lines) for each in looks)


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
