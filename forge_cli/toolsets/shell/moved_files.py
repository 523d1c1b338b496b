"""Files that a trial moved: deleted, and made again under another name or in another folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from forge_cli.sandbox.changes.apply import ChangeSet
from forge_cli.sandbox.changes.path_changes import PathChange

MAX_COMPARED = 256 * 1024
"""Bytes of a file whose contents are compared with others."""
_PAIRS_AT_MOST = 200
"""Pairs of a deleted and a new file whose contents are compared."""
_SIMILAR = 0.5
"""The share of common contents from which git also detects a rename."""


def moved_files(changes: ChangeSet, same: frozenset[Path]) -> set[Path]:
    """Return the deleted files that exist elsewhere; ``same`` are those with identical contents.

    A deleted file also counts if a new file has its name or most of its contents. Empty files count
    up to the number of new empty files. So no more is lost than an edit may delete.
    """
    gone = [change for change in changes.changes if change.after is None and _is_file(change)]
    new = [change for change in changes.changes if change.before is None and _is_file(change)]
    names = {change.parts[-1] for change in new}
    found = set(same) | {change.path for change in gone if change.parts[-1] in names}
    # Empty files are all alike, so as many count as moved as were made.
    new_empty = sum(1 for change in new if change.after and not change.after.size)
    gone_empty = [change.path for change in gone if change.before and not change.before.size]
    found.update(gone_empty[:new_empty])
    left = [change for change in gone if change.path not in found]
    return found | set(_similar(changes, left, new))


def _is_file(change: PathChange) -> bool:
    entry = change.after or change.before
    return entry is not None and entry.kind == "file"


def _similar(
    changes: ChangeSet, gone: Sequence[PathChange], new: Sequence[PathChange]
) -> Iterable[Path]:
    """Yield deleted files for which a new file has most of the lines; each new file counts once."""
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
    """Return how often each line of a small text occurs; None for other files."""
    try:
        if path.lstat().st_size > MAX_COMPARED:
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
