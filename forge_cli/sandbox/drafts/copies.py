"""Plain copies of zones, for drafts on systems or folders that cannot have a view."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from forge_cli.core.errors import UsageError
from forge_cli.core.text import counted
from forge_cli.files.copying import clone_file, copy_content
from forge_cli.files.home import make_private
from forge_cli.files.replace import replace_file
from forge_cli.sandbox.changes.copied import Stamp, read_copied, scan_tree, stamp_of
from forge_cli.sandbox.changes.path_changes import PathChange
from forge_cli.sandbox.drafts.draft import DraftZone, SessionDraft
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.processes.limits import spell_size

MAX_ENTRIES = 200_000
MAX_BYTES = 5 << 30
"""The most that is copied; files that share their blocks with the original do not count."""
_STAMPS = "copied"
_NO_COPY = "a plain copy of the folder failed, too"


def copy_zones(draft: SessionDraft, why: str) -> SessionDraft:
    """Return the draft on plain copies of its zones, for the reason ``why``.

    Raise a UsageError if there is too much to copy.
    """
    zones: list[DraftZone] = []
    copier = _Copier()
    stamps: dict[str, list[tuple[tuple[str, ...], Stamp]]] = {}
    for zone in draft.zones:
        outer = next((each for each in zones if Path(zone.path).is_relative_to(each.path)), None)
        if outer is not None:  # it is a part of the copy of the outer zone
            inside = os.path.relpath(zone.path, outer.path)
            zones.append(replace(zone, copy=os.path.join(outer.copy, inside)))
            continue
        copy = _new_folder(draft, zone)
        # The draft names its copies before they are made, so that dropping it finds them.
        zones.append(replace(zone, copy=str(copy)))
        draft = draft.become(draft.state, zones=(*zones, *draft.zones[len(zones) :]))
        try:
            copier.copy_tree(zone.path, str(copy))
        except OSError as error:
            place = shown(str(error.filename or zone.path))
            raise UsageError(f"{why}; {_NO_COPY}: {place}: {error.strerror}") from None
        except _TooMuchError as error:
            raise UsageError(f"{why}; {_NO_COPY}: {error}", hint="draft a smaller zone") from None
        upper = draft.upper(zone)
        shutil.rmtree(upper)
        upper.symlink_to(copy)
        stamps[zone.path] = [(parts, stamp_of(info)) for parts, info in scan_tree(str(copy))]
    _save(draft, stamps)
    return draft.become(draft.state, zones=tuple(zones), why_copied=why, copied=draft.view.used())


def changes_of_copy(draft: SessionDraft, zone: DraftZone) -> list[PathChange]:
    """Return what the session changed in the copy of a zone."""
    made = dict(_load(draft).get(zone.path, ()))
    return read_copied(Path(zone.path), Path(zone.copy), made)


def accept_copies(draft: SessionDraft, changes: list[PathChange]) -> None:
    """Record that the copies of these paths are as the real files are now."""
    stamps = {zone: dict(entries) for zone, entries in _load(draft).items()}
    copies = {zone.path: zone.copy for zone in draft.zones if zone.copy}
    for change in changes:
        if change.zone not in copies:
            continue
        try:
            info = os.lstat(os.path.join(copies[change.zone], *change.parts))
        except (FileNotFoundError, NotADirectoryError):
            stamps[change.zone].pop(change.parts, None)
        else:
            stamps[change.zone][change.parts] = stamp_of(info)
    _save(draft, {zone: list(entries.items()) for zone, entries in stamps.items()})


def _save(draft: SessionDraft, stamps: dict[str, list[tuple[tuple[str, ...], Stamp]]]) -> None:
    told = {
        os.fsencode(zone): [([os.fsencode(name) for name in parts], stamp) for parts, stamp in each]
        for zone, each in stamps.items()
    }
    replace_file(draft.place / _STAMPS, msgspec.msgpack.encode(told), mode=0o600)


def _load(draft: SessionDraft) -> dict[str, list[tuple[tuple[str, ...], Stamp]]]:
    told = msgspec.msgpack.decode(
        (draft.place / _STAMPS).read_bytes(),
        type=dict[bytes, list[tuple[tuple[bytes, ...], Stamp]]],
    )
    return {
        os.fsdecode(zone): [(tuple(map(os.fsdecode, parts)), stamp) for parts, stamp in each]
        for zone, each in told.items()
    }


def _new_folder(draft: SessionDraft, zone: DraftZone) -> Path:
    """Return a new folder beside the zone, so that files can share blocks, or in the draft.

    In a git repository, it would be an untracked folder.
    """
    real = Path(zone.path)
    beside = real.with_name(f"{real.name}.draft-{draft.id}")
    in_repository = any(os.path.lexists(folder / ".git") for folder in real.parents)
    if not in_repository:
        with suppress(OSError):
            beside.mkdir(mode=0o700)
            return beside
    inside = draft.upper(zone).with_name("copy")
    make_private(inside)
    return inside


class _TooMuchError(Exception):
    pass


class _Copier:
    """Copies trees within bounds; names of one file stay names of one file."""

    def __init__(self) -> None:
        self._entries = MAX_ENTRIES
        self._bytes = MAX_BYTES
        self._firsts: dict[tuple[int, int], str] = {}

    def copy_tree(self, source: str, target: str) -> None:
        """Copy everything below a folder; leave out what cannot be read, sockets and devices."""
        folders: list[tuple[str, os.stat_result]] = [(target, os.stat(source))]
        waiting = [(source, target)]
        while waiting:
            here, there = waiting.pop()
            with os.scandir(here) as entries:
                for entry in entries:
                    self._entries -= 1
                    if self._entries < 0:
                        raise _TooMuchError(f"more than {counted(MAX_ENTRIES, 'path')}")
                    info = entry.stat(follow_symlinks=False)
                    copy = os.path.join(there, entry.name)
                    if not stat.S_ISDIR(info.st_mode):
                        self._copy(entry.path, copy, info)
                    elif os.access(entry.path, os.R_OK | os.X_OK):
                        os.mkdir(copy, 0o700)
                        folders.append((copy, info))
                        waiting.append((entry.path, copy))
        # Last, because writing in a folder needs its permission and changes its time.
        for path, info in reversed(folders):
            _copy_attributes(path, info)

    def _copy(self, source: str, target: str, info: os.stat_result) -> None:
        if stat.S_ISLNK(info.st_mode):
            os.symlink(os.readlink(source), target)
        elif stat.S_ISFIFO(info.st_mode):
            os.mkfifo(target)
        elif not stat.S_ISREG(info.st_mode) or not os.access(source, os.R_OK):
            return
        elif first := self._firsts.get((info.st_dev, info.st_ino)):
            os.link(first, target)
            return
        else:
            self._copy_content(source, target, info)
            if info.st_nlink > 1:
                self._firsts[info.st_dev, info.st_ino] = target
        _copy_attributes(target, info)

    def _copy_content(self, source: str, target: str, info: os.stat_result) -> None:
        with open(source, "rb") as content, open(target, "xb") as copy:
            if clone_file(content.fileno(), copy.fileno()):
                return
            self._bytes -= info.st_blocks * 512
            if self._bytes < 0:
                raise _TooMuchError(f"more than {spell_size(MAX_BYTES)}")
            copy_content(content.fileno(), copy.fileno())


def _copy_attributes(path: str, info: os.stat_result) -> None:
    with suppress(PermissionError):  # only root can change the owner
        os.chown(path, info.st_uid, info.st_gid, follow_symlinks=False)
    if not stat.S_ISLNK(info.st_mode):
        os.chmod(path, stat.S_IMODE(info.st_mode))
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns), follow_symlinks=False)
