"""Content that a session took from its path and that was not kept: where it is now, and what must stay for it.

A file that was too large to be kept may have been moved, so what the session made may be the only copy of it. Such a
file is moved back, and where that is not possible it stays.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from forge_cli.core.errors import ToolError
from forge_cli.record.changes import ChangedFile, ChangeLog, State, logs_of_others
from forge_cli.record.restoring import parking_place, state_now
from forge_cli.sandbox.files.held import HeldFile
from forge_cli.sandbox.names import shown

_COMPRESSED = (
    b"\x1f\x8b",
    b"\xfd7zXZ",
    b"(\xb5/\xfd",
    b"BZh",
    b"PK\x03\x04",
    b"7z\xbc\xaf",
    b"Rar!",
    b"\x04\x22M\x18",
)
"""How files begin that hold others in fewer bytes: gzip, xz, zstd, bzip2, zip, 7z, rar, lz4."""
_GIT_OBJECTS = (".git", "objects")
_SMALLEST = 1000
"""A file of less than a thousandth of the bytes is not taken for another form of some content."""


class Moved(Struct, frozen=True):
    """The content of a file, which waits where the session has moved it, or where an undo that was killed left it."""

    file: ChangedFile
    is_parked: bool = False


class Whereabouts(Struct, frozen=True):
    """The content that was not kept: where each of the files to be undone comes back from, and what is missing."""

    back: Mapping[Path, Moved]
    """By the path that the content comes back to."""
    missing: tuple[ChangedFile, ...] = ()
    """The files whose content does not come back, of the whole session."""
    others: tuple[ChangedFile, ...] = ()
    """The same of other sessions."""

    def target_of(self, source: Path) -> Path | None:
        """Return the path that the content of a file is moved back to."""
        return next((path for path, moved in self.back.items() if moved.file.path == source), None)

    def doubt(self, file: ChangedFile, held: HeldFile, state: State) -> str | None:
        """Return why a file must not be removed or replaced: it may be the only copy of what was not kept."""
        if state is None or state[0] != "file" or not held.info().size:
            return None
        for lost in (*self.missing, *self.others):
            if lost.path != file.path and lost.before == state:
                return f"it is the only copy of what {shown(str(lost.path))} was"
        for lost in self.missing:
            if lost.path != file.path and _may_hold(file, held, lost):
                return f"it may hold what {shown(str(lost.path))} was, which was not kept"
        for lost in self.others:
            if lost.path != file.path and _has_name_of(file, lost):
                return f"it may hold what {shown(str(lost.path))} was, which another session did not keep"
        return None


def find_moved(
    log: ChangeLog, files: Iterable[ChangedFile], calls: Container[str | None] | None
) -> Whereabouts:
    """Find the content that was not kept among the files that are to be undone."""
    chosen = {file.path: file for file in files}
    whole = chosen if calls is None else {file.path: file for file in log.changed()}
    lost = [file for file in chosen.values() if _is_lost(file, log)]
    elsewhere = [file for file in whole.values() if file.path not in chosen and _is_lost(file, log)]
    others: list[ChangedFile] = []
    for other in logs_of_others(log):
        others += [file for file in other.changed() if _is_lost(file, other)]
    back = _find_back(lost, chosen.values(), whole.values())
    missing = tuple(file for file in (*lost, *elsewhere) if file.path not in back)
    return Whereabouts(back, missing, tuple(others))


def _is_lost(file: ChangedFile, log: ChangeLog) -> bool:
    """Is the content from before neither kept nor at its path?"""
    if not file.unkept or file.before is None or file.before[0] != "file" or log.has(file):
        return False
    try:
        return state_now(file) != file.before
    except (ToolError, OSError):
        return True


def _find_back(
    lost: Iterable[ChangedFile], files: Iterable[ChangedFile], whole: Iterable[ChangedFile]
) -> dict[Path, Moved]:
    """Find for each lost file another one that has its content, as the session left it.

    Where the last undo or redo was cut off, it may wait to go to any path of the ``whole`` session.
    """
    lost = list(lost)
    if not lost:
        return {}
    wanted = {file.before for file in lost}
    sources = [file for file in files if file.after in wanted and _is_as_left(file)]
    waiting = [
        (parked, state)
        for parked in map(parking_place, whole)
        if (state := _state_of(parked)) is not None
    ]
    back: dict[Path, Moved] = {}
    for file in lost:
        own = parking_place(file)
        fitting_parked = sorted(
            (parked for parked, state in waiting if state == file.before),
            key=lambda parked: parked.path != own.path,
        )
        if fitting_parked:
            back[file.path] = Moved(fitting_parked[0], is_parked=True)
            waiting = [each for each in waiting if each[0].path != fitting_parked[0].path]
            continue
        if any(parked.path == own.path for parked, _ in waiting):
            continue
        fitting = [
            source for source in sources if source.after == file.before and source.path != file.path
        ]
        if fitting:
            source = min(fitting, key=lambda source: _preference(source, file))
            sources.remove(source)
            back[file.path] = Moved(source)
    return back


def _state_of(file: ChangedFile) -> State:
    """Return what is at a path, or None where that cannot be seen."""
    with suppress(ToolError, OSError):
        return state_now(file)
    return None


def _preference(source: ChangedFile, file: ChangedFile) -> tuple[bool, bool]:
    """The file that was made, and has the same name, comes first."""
    return source.before is not None, source.parts[-1:] != file.parts[-1:]


def _is_as_left(file: ChangedFile) -> bool:
    try:
        return state_now(file) == file.after
    except (ToolError, OSError):
        return False


def _may_hold(file: ChangedFile, held: HeldFile, lost: ChangedFile) -> bool:
    """May a file have the content of another one, edited, in part or compressed?

    What a session wrote by itself is small beside a file that was too large to be kept.
    """
    size = held.info().size
    gained = size - file.size
    if _has_name_of(file, lost) or _stem(file) == _stem(lost):
        return True
    if gained * _SMALLEST >= lost.size or lost.size <= 2 * size <= 4 * lost.size:
        return True
    return held.read(8).startswith(_COMPRESSED) or _GIT_OBJECTS in pairwise(file.parts)


def _has_name_of(file: ChangedFile, lost: ChangedFile) -> bool:
    """Is it called like the other one, with something before or behind it?"""
    name = re.escape(lost.path.name)
    return re.search(rf"(?<![^\W_]){name}(?![^\W_])", file.path.name) is not None


def _stem(file: ChangedFile) -> str:
    return file.path.name.lstrip(".").split(".")[0]
