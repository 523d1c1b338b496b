"""A draft on disk: its state, and the folders with its changes."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.errors import ForgeError, ToolError, UsageError
from forge_cli.core.notify import Notify
from forge_cli.files.home import forge_home, make_private
from forge_cli.files.replace import replace_file
from forge_cli.sandbox.changes.apply import finish_interrupted, is_begun, upper_folder
from forge_cli.sandbox.drafts.start import record_start
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.processes.view import BoundedView
from forge_cli.sandbox.trial.copies import drop_copies

DraftState = Literal["open", "ready", "applied", "dropped"]
"""``open`` while its session runs, ``ready`` when it waits for a review."""
STATES = frozenset(get_args(DraftState))
_STATE_FILE, _LOCK = "draft.json", "lock"


class DraftZone(Struct, frozen=True):
    """A folder that the session sees through a copy-on-write view."""

    name: str
    path: str
    inode: int
    """The inode number when the draft began; another folder in its place gets no changes."""
    copy: str = ""
    """The folder of a plain copy in which the session works, if there is no view."""


class SessionDraft(Struct, frozen=True):
    """A session on copies of its zones."""

    id: str
    folder: str
    worker: str
    worker_file: str
    workspace: str
    zones: tuple[DraftZone, ...]
    began: int
    """Nanoseconds since the epoch; real files that changed later were changed by others."""
    state: DraftState = "open"
    session: str = ""
    size: int | None = None
    """The most bytes that the changes may take."""
    attempts: tuple[str, ...] = ()
    """The IDs of all drafts of the same task, if it was attempted several times."""
    offered: bool = False
    """True for the attempt whose check passed first."""
    why_copied: str = ""
    """Why the session works on plain copies of its zones instead of a view."""
    copied: int = 0
    """The bytes of these copies before the session changed anything."""

    @property
    def place(self) -> Path:
        return Path(self.folder)

    @property
    def roots(self) -> dict[str, int]:
        """The inode number of each zone, by its path."""
        return {zone.path: zone.inode for zone in self.zones}

    @property
    def view(self) -> BoundedView:
        """The folders that hold the changes, with the limit on their size."""
        folders = tuple(zone.copy or str(self.upper(zone)) for zone in self.zones)
        return BoundedView(folders, None if self.size is None else self.size + self.copied)

    @property
    def seen_zones(self) -> frozenset[str]:
        """The folders in which the session works: the zones, or their copies."""
        return frozenset(zone.copy or zone.path for zone in self.zones)

    def seen_path(self, path: Path) -> Path:
        """Return the path at which the session sees a real path."""
        for zone in self.zones:
            if zone.copy and path.is_relative_to(zone.path):
                return Path(zone.copy) / path.relative_to(zone.path)
        return path

    @property
    def began_at(self) -> str:
        """The time when it began, in the format of events."""
        return datetime.fromtimestamp(self.began / 1e9, UTC).isoformat()

    @property
    def is_in_use(self) -> bool:
        """Return True if a session works in it now."""
        try:
            os.close(self.lock())
        except BlockingIOError:
            return True
        return False

    def lock(self) -> int:
        """Return a descriptor that marks the draft as in use while any process has it open.

        Raise BlockingIOError if another process has one.
        """
        descriptor = os.open(self.place / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def take(self) -> None:
        """Keep sessions out until this process ends; raise a ForgeError if one is in the draft."""
        try:
            self.lock()
        except BlockingIOError:
            self.require_unused()
            raise

    def require_unused(self) -> None:
        """Raise a ForgeError if a session works in it now."""
        if self.is_in_use:
            raise ForgeError(
                f"the draft {self.id} is in use by its session",
                hint="wait for the session, or end it",
            )

    def upper(self, zone: DraftZone) -> Path:
        """Return the folder that holds what the session changed in a zone."""
        return upper_folder(self.place, zone.path)

    def save(self) -> None:
        """Write the state durably, so that a draft is still a draft after a power cut."""
        replace_file(
            self.place / _STATE_FILE,
            msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n",
            mode=0o600,
        )

    def become(self, state: DraftState, **changes: object) -> SessionDraft:
        """Save the draft in another state, and return it."""
        found = replace(self, state=state, **changes)
        found.save()
        return found


def backups_in(place: Path) -> Path:
    """Return the path beside which a session in a draft backs up files that it changes."""
    return place / "view.jsonl"


def drafts_folder() -> Path:
    """Return the folder of all drafts: ``FORGE_DRAFTS``, or the one in the home."""
    given = os.environ.get("FORGE_DRAFTS")
    return Path(given).expanduser() if given else forge_home() / "drafts"


def new_draft(
    id: str,
    worker: str,
    worker_file: Path,
    workspace: Path,
    zones: Iterable[tuple[str, Path]],
    size: int | None = None,
) -> SessionDraft:
    """Make the folders of a draft that begins now."""
    folder = Path(os.path.realpath(drafts_folder())) / id
    found = tuple(
        DraftZone(name, str(path), path.stat().st_ino)
        # An outer zone is mounted before the zones inside it.
        for name, path in sorted(zones, key=lambda zone: len(zone[1].parts))
    )
    make_private(folder.parent)
    make_private(folder)
    # The clock of the file system is coarser than that of programs: compare its times with its own.
    began = os.stat(folder).st_ctime_ns
    draft = SessionDraft(
        id, str(folder), worker, str(worker_file), str(workspace), found, began, size=size
    )
    for zone in found:
        _make_zone_folders(draft, zone)
    record_start(folder, draft.roots).save(folder)
    draft.save()
    return draft


def _make_zone_folders(draft: SessionDraft, zone: DraftZone) -> None:
    upper = draft.upper(zone)
    for place in (upper, upper.with_name("work")):
        place.mkdir(mode=0o700, parents=True)
    # The upper folder is the root of the view: it needs the owner and the mode of the zone.
    info = os.stat(zone.path)
    if os.geteuid() == 0:
        os.chown(upper, info.st_uid, info.st_gid)
    upper.chmod(info.st_mode & 0o7777)


def all_drafts() -> Iterator[SessionDraft]:
    """Yield the drafts of this home, the newest first; skip folders that cannot be read."""
    try:
        # IDs begin with a date and a time.
        names = sorted(os.listdir(drafts_folder()), reverse=True)
    except OSError:
        return
    for name in names:
        draft = load_draft(drafts_folder() / name)
        if draft is not None:
            yield draft


def load_draft(folder: Path) -> SessionDraft | None:
    """Return the draft in a folder; None if it is missing or this version cannot read it."""
    try:
        return msgspec.json.decode((folder / _STATE_FILE).read_bytes(), type=SessionDraft)
    except (OSError, msgspec.DecodeError):
        return None


def find_draft(name: str) -> SessionDraft:
    """Return a draft by its ID or its session's, or by the beginning or end of one.

    ``last`` is the newest. Raise a UsageError if not exactly one draft matches.
    """
    drafts = list(all_drafts())
    if name == "last" and drafts:
        same_task = [draft for draft in drafts if draft.id in drafts[0].attempts]
        return next((draft for draft in same_task if draft.offered), drafts[0])
    exact = [draft for draft in drafts if name in (draft.id, draft.session)]
    found = exact
    if name and not exact:
        # The beginning of an ID is a date; people remember the random end.
        for draft in drafts:
            own = (draft.id, draft.session)
            if any(each.startswith(name) or each.endswith(name) for each in own):
                found.append(draft)
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(draft.id for draft in found[:5])
        raise UsageError(f"{shown(name)} could be {len(found)} drafts: {ids}")
    hint = "forge drafts lists them" if drafts else "forge run WORKER TASK --draft makes one"
    raise UsageError(f"there is no draft {shown(name)}", hint=hint)


def finish_drafts(notify: Notify) -> None:
    """Complete each apply that was interrupted by a kill, and report it."""
    for draft in all_drafts():
        if is_begun(draft.place):
            try:
                sentence = finish_interrupted(draft.place)
            except (ToolError, OSError, ValueError) as error:
                sentence = f"the draft {draft.id} cannot be completed yet ({error})"
            if sentence:
                notify("warning", sentence)


def drop_applied(draft: SessionDraft) -> None:
    """Forget a draft that was applied whole, and the other attempts at its task."""
    drop_draft(draft)
    for id in draft.attempts:
        other = load_draft(drafts_folder() / id)
        if other is not None and other.id != draft.id and not other.is_in_use:
            drop_draft(other)


def drop_draft(draft: SessionDraft) -> None:
    """Forget everything that a draft changed."""
    # If the removal is interrupted, what is left must not look like a draft to apply.
    draft.become("dropped")
    for zone in draft.zones:
        if zone.copy:
            drop_copies(Path(zone.copy))
        drop_copies(draft.upper(zone).parent)
    shutil.rmtree(draft.place, ignore_errors=True)
    if draft.place.exists():
        raise ForgeError(f"{shown(draft.folder)} cannot be removed; remove it by hand")
