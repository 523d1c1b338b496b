"""Restoring one path at the exact place that the session changed, whatever its name is."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from forge_cli.core.errors import ForgeError, ToolError
from forge_cli.core.zones import Access, Zone, ZoneMode
from forge_cli.files.regular import sync_folder
from forge_cli.files.replace import replace_by_link, replace_in
from forge_cli.record.changes import ChangedFile, ChangeLog, State, state_of
from forge_cli.sandbox.files.consent import require_capability
from forge_cli.sandbox.files.held import HeldFile
from forge_cli.sandbox.files.place import NotAFolder, Place, locate_place, make_parent
from forge_cli.sandbox.files.virtual import ParsedPath
from forge_cli.sandbox.names import shown

_PARKED = ".forge-undo-"
"""The prefix of a file while it is moved back.

It must not match the temporary files that are swept away.
"""


@contextmanager
def hold_changed_file(file: ChangedFile, access: Access = Access.INFO) -> Iterator[HeldFile]:
    """Open the exact place that a session changed; raise ToolError if its path now leads elsewhere.

    Commands create file names that file tools refuse, so the path is not parsed like one that a
    model wrote.
    """
    if os.path.realpath(file.zone) != file.zone:
        raise ToolError(f"{shown(file.zone)} leads elsewhere now")
    zone = Zone("forge-undo", Path(file.zone), ZoneMode.RW)
    asked = ParsedPath(str(file.path), zone.path, file.parts)
    place = locate_place(asked, zone.path, [zone], through_last=False)
    try:
        if place.parts != file.parts:
            raise ToolError(f"{asked} leads elsewhere now")
        require_capability(asked, place, access, [zone])
        yield HeldFile(asked, place, _ignore)
    finally:
        os.close(place.folder)


def _ignore(place: Place, info: os.stat_result | None) -> None:
    """Ignore a change."""


def state_now(file: ChangedFile) -> State:
    """Return the present state of a path; None also if a parent is not a folder."""
    try:
        with hold_changed_file(file) as held:
            return state_of(held)
    except NotAFolder:
        return None


def failure_reason(error: Exception) -> str:
    """Return the reason of a failed step for the user."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)


def restore_file(file: ChangedFile, kind: str, detail: str, log: ChangeLog) -> None:
    """Restore the earlier content and attributes of a path."""
    with hold_changed_file(file) as held:
        if state_of(held) == file.before:
            os.chmod(held.place.name, file.mode, dir_fd=held.place.folder)
            return
    _make_way(file, kind)
    access = Access.WRITE if kind == "file" else Access.DELETE
    with hold_changed_file(file, access) as held:
        if kind == "file":
            with log.kept(file, detail) as data:
                if held.kind == "link":  # otherwise the target of the link would be written
                    held.delete()
                held.restore(data, file.attributes)
            return
        if kind == "link":
            with make_parent(held.place) as folder:
                replace_by_link(folder, held.place.name, detail)
            return
        if held.kind is not None:
            held.delete()
        with make_parent(held.place) as folder:
            os.mkdir(held.place.name, dir_fd=folder)
            os.chmod(held.place.name, file.mode, dir_fd=folder)


def _make_way(file: ChangedFile, kind: str) -> None:
    """Delete a folder at the path of something that is restored."""
    with hold_changed_file(file) as held:
        gives_way = held.kind == "directory" and kind != "directory"
    if gives_way:
        with hold_changed_file(file, Access.DELETE) as held:
            held.delete()


def remove_made_file(file: ChangedFile) -> None:
    """Delete a file that the session created, and the folders that it created for it."""
    with hold_changed_file(file, Access.DELETE) as held:
        held.delete()
    remove_folders(file)


def remove_folders(file: ChangedFile) -> None:
    """Delete the folders that the session created for a file, if they are empty."""
    for count in range(1, min(file.made, len(file.parts) - 1) + 1):
        folder = ChangedFile(file.zone, file.parts[:-count])
        with (
            suppress(ForgeError, ToolError, OSError),
            hold_changed_file(folder, Access.DELETE) as held,
        ):
            if held.kind == "directory":  # a file may have been restored in its place
                held.delete()


def parking_place(file: ChangedFile) -> ChangedFile:
    """Return the place where the content of a file waits while it is moved back.

    It depends on the path only, so the next undo finishes one that was killed. It is in the folder
    of the zone, which exists whatever happens to the folders below it.
    """
    return ChangedFile(file.zone, (_PARKED + sha256(os.fsencode(file.path)).hexdigest()[:16],))


def move_changed_file(source: ChangedFile, target: ChangedFile) -> None:
    """Move a file, replacing the target; between two file systems, copy it."""
    with (
        hold_changed_file(source) as old,
        hold_changed_file(target) as new,
        make_parent(new.place) as folder,
    ):
        try:
            os.rename(
                old.place.name, new.place.name, src_dir_fd=old.place.folder, dst_dir_fd=folder
            )
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            with open(old.open(), "rb") as content:
                replace_in(folder, new.place.name, content, like=old.place.info)
            os.unlink(old.place.name, dir_fd=old.place.folder)
        # The new name first: after a power cut, the file has two names rather than none.
        sync_folder(".", within=folder)
        sync_folder(".", within=old.place.folder)


def put_back(parked: ChangedFile, file: ChangedFile) -> None:
    """Move parked content to its path, and restore its owner and mode."""
    _make_way(file, "file")
    move_changed_file(parked, file)
    with hold_changed_file(file) as held:
        name, folder = held.place.name, held.place.folder
        with suppress(OSError):  # only root may give files away
            os.chown(name, *file.owner, dir_fd=folder, follow_symlinks=False)
        os.chmod(name, file.mode, dir_fd=folder)
