"""Content that a session moved without a backup: where it is, and what must stay for it.

A file that is too large to be backed up may have been moved, and may then be the only copy of its
content. Undoing moves such a file back, or leaves it where it is.
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
"""The first bytes of compressed files: gzip, xz, zstd, bzip2, zip, 7z, rar, lz4."""
_GIT_OBJECTS = (".git", "objects")
_MIN_RATIO = 1000
"""A file smaller than a thousandth of some content is not taken for a compressed form of it."""


class Moved(Struct, frozen=True):
    """A file with moved content, as the session left it or an unfinished undo parked it."""

    file: ChangedFile
    is_parked: bool = False


class Whereabouts(Struct, frozen=True):
    """The places of content that was not backed up, and the files whose content is missing."""

    back: Mapping[Path, Moved]
    """By the path to which the content returns."""
    missing: tuple[ChangedFile, ...] = ()
    """The files of this session whose content cannot be restored."""
    others: tuple[ChangedFile, ...] = ()
    """The files of other sessions whose content was not backed up."""

    def target_of(self, source: Path) -> Path | None:
        """Return the path to which the content of a file returns, or None."""
        for path, moved in self.back.items():
            if moved.file.path == source:
                return path
        return None

    def doubt(self, file: ChangedFile, held: HeldFile, state: State) -> str | None:
        """Return the reason to keep a file that may be the only copy of some content."""
        if state is None or state[0] != "file" or not held.info().size:
            return None
        for lost in (*self.missing, *self.others):
            if lost.path != file.path and lost.before == state:
                return f"it is the only copy of the earlier {shown(str(lost.path))}"
        for lost in self.missing:
            if lost.path != file.path and _may_hold(file, held, lost):
                return (
                    f"it may contain the earlier {shown(str(lost.path))}, which was not backed up"
                )
        for lost in self.others:
            if lost.path != file.path and _has_name_of(file, lost):
                earlier = shown(str(lost.path))
                return (
                    f"it may contain the earlier {earlier}, which another session did not back up"
                )
        return None


def find_moved(
    log: ChangeLog, files: Iterable[ChangedFile], calls: Container[str | None] | None
) -> Whereabouts:
    """Find the content that has no backup among the files that are to be undone."""
    chosen = {file.path: file for file in files}
    whole = chosen
    if calls is not None:
        whole = {file.path: file for file in log.changed()}
    lost = [file for file in chosen.values() if _is_lost(file, log)]
    elsewhere = [file for file in whole.values() if file.path not in chosen and _is_lost(file, log)]
    others: list[ChangedFile] = []
    for other in logs_of_others(log):
        others += [file for file in other.changed() if _is_lost(file, other)]
    back = _find_back(lost, chosen.values(), whole.values())
    missing = tuple(file for file in (*lost, *elsewhere) if file.path not in back)
    return Whereabouts(back, missing, tuple(others))


def _is_lost(file: ChangedFile, log: ChangeLog) -> bool:
    """Return True if the earlier content is neither backed up nor at its path."""
    if not file.unkept or file.before is None or file.before[0] != "file" or log.has(file):
        return False
    try:
        return state_now(file) != file.before
    except (ToolError, OSError):
        return True


def _find_back(
    lost: Iterable[ChangedFile], files: Iterable[ChangedFile], whole: Iterable[ChangedFile]
) -> dict[Path, Moved]:
    """Find, for each lost file, another file with its content, as the session left it.

    After an unfinished undo or redo, the content may be parked for any path in ``whole``.
    """
    lost = list(lost)
    if not lost:
        return {}
    wanted = {file.before for file in lost}
    sources = [file for file in files if file.after in wanted and _is_as_left(file)]
    waiting: list[tuple[ChangedFile, State]] = []
    for parked in map(parking_place, whole):
        state = _state_of(parked)
        if state is not None:
            waiting.append((parked, state))
    back: dict[Path, Moved] = {}
    for file in lost:
        own = parking_place(file)
        # The content in the file's own parking place comes first, if it fits.
        fitting_parked = sorted(
            (parked for parked, state in waiting if state == file.before),
            key=lambda parked: parked.path != own.path,
        )
        if fitting_parked:
            back[file.path] = Moved(fitting_parked[0], is_parked=True)
            waiting = [each for each in waiting if each[0].path != fitting_parked[0].path]
            continue
        # The place for this file is taken by other content, which must go to its own path first.
        if any(parked.path == own.path for parked, _ in waiting):
            continue
        fitting = [
            source for source in sources if source.after == file.before and source.path != file.path
        ]
        if fitting:
            source = min(fitting, key=lambda source: _preference(source, file))
            # Each source can be moved once, even if two lost files had the same content.
            sources.remove(source)
            back[file.path] = Moved(source)
    return back


def _state_of(file: ChangedFile) -> State:
    """Return the present state of a path, or None if it cannot be read."""
    with suppress(ToolError, OSError):
        return state_now(file)
    return None


def _preference(source: ChangedFile, file: ChangedFile) -> tuple[bool, bool]:
    """Return a sort key: a file that was created, and one with the same name, come first."""
    return source.before is not None, source.parts[-1:] != file.parts[-1:]


def _is_as_left(file: ChangedFile) -> bool:
    try:
        return state_now(file) == file.after
    except (ToolError, OSError):
        return False


def _may_hold(file: ChangedFile, held: HeldFile, lost: ChangedFile) -> bool:
    """Return True if a file may contain the content of another one, edited, in part or compressed.

    The files that a session writes by itself are small compared with a file that is too large for a
    backup.
    """
    size = held.info().size
    gained = size - file.size
    if _has_name_of(file, lost) or _stem(file) == _stem(lost):
        return True
    # Half to twice the size: probably an edited or converted version.
    if gained * _MIN_RATIO >= lost.size or lost.size <= 2 * size <= 4 * lost.size:
        return True
    # The longest of these signatures has six bytes.
    return held.read(8).startswith(_COMPRESSED) or _GIT_OBJECTS in pairwise(file.parts)


def _has_name_of(file: ChangedFile, lost: ChangedFile) -> bool:
    """Return True if the name of a file contains the name of the other one as a whole word."""
    name = re.escape(lost.path.name)
    return re.search(rf"(?<![^\W_]){name}(?![^\W_])", file.path.name) is not None


def _stem(file: ChangedFile) -> str:
    return file.path.name.lstrip(".").split(".")[0]
