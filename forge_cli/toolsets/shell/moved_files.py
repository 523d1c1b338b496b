"""Files that a trial moved: gone from one place, and there under another name or in another folder, changed or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from forge_cli.sandbox.changes.apply import ChangeSet
from forge_cli.sandbox.changes.path_changes import PathChange

COMPARED_AT_MOST = 256 * 1024
"""Bytes of a file whose contents are compared with others."""
_PAIRS_AT_MOST = 200
_SIMILAR = 0.5
"""The share of its contents by which git, too, takes a file for one that was renamed."""


def moved_files(changes: ChangeSet, same: frozenset[Path]) -> set[Path]:
    """Return files that are there elsewhere; ``same`` are those of which a new file has the very contents.

    Others are those of which a new one has the name, or most of the contents, and as many without contents as were
    made. What is lost of those is no more than an edit in place may take away.
    """
    gone = [change for change in changes.changes if change.after is None and _is_file(change)]
    new = [change for change in changes.changes if change.before is None and _is_file(change)]
    names = {change.parts[-1] for change in new}
    found = set(same) | {change.path for change in gone if change.parts[-1] in names}
    empty = sum(1 for change in new if change.after and not change.after.size)
    found |= {
        change.path
        for change in [each for each in gone if each.before and not each.before.size][:empty]
    }
    left = [change for change in gone if change.path not in found]
    return found | set(_similar(changes, left, new))


def _is_file(change: PathChange) -> bool:
    entry = change.after or change.before
    return entry is not None and entry.kind == "file"


def _similar(
    changes: ChangeSet, gone: Sequence[PathChange], new: Sequence[PathChange]
) -> Iterable[Path]:
    """Yield files of which a new one, each taken once, has most of the lines."""
    if not gone or len(gone) * len(new) > _PAIRS_AT_MOST:
        return
    lines = [_lines_of(changes.source(change, "after")) for change in new]
    for change in gone:
        before = _lines_of(change.path)
        found = next((at for at, after in enumerate(lines) if _is_similar(before, after)), None)
        if found is not None:
            lines.pop(found)
            yield change.path


def _lines_of(path: Path) -> Counter[bytes] | None:
    """The lines of a small text, and how often each is there."""
    try:
        if path.lstat().st_size > COMPARED_AT_MOST:
            return None
        text = path.read_bytes()
    except OSError:
        return None
    return None if b"\0" in text else Counter(text.splitlines(keepends=True))


def _is_similar(before: Counter[bytes] | None, after: Counter[bytes] | None) -> bool:
    if not before or not after:
        return False
    most = max(_size(before), _size(after))
    return _size(before & after) >= _SIMILAR * most


def _size(lines: Counter[bytes]) -> int:
    return sum(len(line) * count for line, count in lines.items())
