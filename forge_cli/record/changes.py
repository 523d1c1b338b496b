"""Backups of the files that a session changes, stored beside its log."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from forge_cli.core.context import current_call
from forge_cli.core.errors import ForgeError
from forge_cli.core.notify import Notify, StatusNotice
from forge_cli.core.sandbox import READ_MAX
from forge_cli.core.text import counted, visible
from forge_cli.files.copying import clone_file
from forge_cli.files.home import TRIALS, make_private
from forge_cli.files.lock import LineFile
from forge_cli.files.regular import read_regular, sync_folder
from forge_cli.files.replace import replace_file
from forge_cli.record.overview import read_overview
from forge_cli.record.places import lock_log, session_file, unlock_log
from forge_cli.record.runs import remove_run
from forge_cli.sandbox.files.held import KEPT_MAX, HeldFile

if TYPE_CHECKING:
    from forge_cli.sandbox.changes.apply import ChangeSet
    from forge_cli.sandbox.changes.path_changes import Entry, PathChange

SESSION_MAX = 100 * 1024 * 1024
"""The most bytes of files that are backed up in one session."""
COMMANDS_MAX = 1024 * 1024 * 1024
"""The same for files that commands change, where a hard link is enough."""
_INDEX = "changes.jsonl"
_FOLDER_SUFFIX = ".undo"
REDO_SUFFIX = ".redo"
"""The suffix of the folder beside a log that contains the state before the last undo."""
_FOLDER = ("directory", "")
"""The state of a folder."""
_DIGEST_LENGTH = 64
"""The length of the name of a backup, which is a hash; the name of a clone is longer."""

State = tuple[str, str] | None
"""The content at a path: its kind, and the hash of a file or the target of a link.

None if nothing is there.
"""


def remove_unused(path: Path) -> None:
    """Delete a session in which nothing was said, called or named.

    A session that cannot be deleted stays.
    """
    with suppress(ForgeError):
        seen = read_overview(path)
        if not (seen.task or seen.turns or seen.tool_calls or seen.title):
            remove_session(path)


def remove_session(path: Path) -> None:
    """Delete a session, or raise ForgeError if a process is using it."""
    held = lock_log(path, hint="stop that process or wait for it, then remove the session")
    try:
        changes = change_log(path.stem)
        changes.remove()
        shutil.rmtree(changes.trials, ignore_errors=True)
        shutil.rmtree(path.with_suffix(REDO_SUFFIX), ignore_errors=True)
        path.unlink()
        remove_run(path.stem)
    except OSError as error:
        raise ForgeError(f"{path} cannot be removed: {error.strerror}") from None
    finally:
        unlock_log(path, held)


class ChangedFile(Struct, frozen=True):
    """A path that a session changed: its state before the first change and after the last one."""

    zone: str
    """The folder of the zone that contains the path."""
    parts: tuple[str, ...]
    before: State = None
    after: State = None
    mode: int = 0
    owner: tuple[int, int] = (0, 0)
    size: int = 0
    """The size of the earlier file in bytes."""
    made: int = 0
    """The number of parent folders that the session created."""
    unkept: str | None = None
    """The reason why the earlier content was not backed up."""
    others: bool = False
    """True if others changed the file between two changes of the session."""
    call: str | None = None
    """The call that changed it."""
    after_mode: int | None = None
    """The mode that a command left, if known."""

    @property
    def path(self) -> Path:
        return Path(self.zone, *self.parts)

    @property
    def differs(self) -> bool:
        """True if the session left another content or mode than it found."""
        return self.after != self.before or self.after_mode not in (None, self.mode)

    def then(self, later: ChangedFile) -> ChangedFile:
        """Return this change and a later one of the same path as one change."""
        others = self.others or later.others or self.after != later.before
        return replace(
            self, after=later.after, after_mode=later.after_mode, others=others, call=later.call
        )

    @property
    def attributes(self) -> os.stat_result:
        """The mode and owner of the earlier file."""
        # Callers read mode and owner only; the other fields have to be there.
        return os.stat_result((self.mode, 0, 0, 1, *self.owner, 0, 0, 0, 0))


@dataclass
class ChangeLog:
    """The backups of a session; nothing is written before the first change."""

    changed_since: ClassVar[str] = "session"
    """The end of the message about a file that was modified afterwards."""
    log: Path
    """The log of the session; the backups are beside it."""
    notify: Notify | None = None
    """Gets a warning about each file that cannot be backed up, before it is changed."""
    commands: bool = False
    """True if commands run on copies, so that the files they change can be backed up."""
    _known: dict[tuple[Path, str | None], ChangedFile] | None = None
    _size: int | None = None
    """The total size of all backups, counted before the first new one."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def folder(self) -> Path:
        return self.log.with_suffix(_FOLDER_SUFFIX)

    @property
    def trials(self) -> Path:
        """The folder of tried commands that still may be approved."""
        return self.log.with_suffix(TRIALS)

    @contextmanager
    def changing(self, held: HeldFile, data: bytes | None) -> Iterator[None]:
        """Back up a file and record its next content, unless the ``with`` block raises."""
        with self._lock:
            known = self._load()
            entry = known.get((held.place.real, current_call())) or self._keep(held)
            if not entry.others and state_of(held) != entry.after:
                entry = replace(entry, others=True)
            after: State = None
            if data is not None:
                after = ("file", _hash_of(data))
            # Before the change: a crash must not leave a changed file without an entry.
            self._write(known, replace(entry, after=after))
        try:
            yield
        except BaseException:
            with self._lock:
                self._write(known, entry)
            raise

    def keep(self, changes: ChangeSet) -> None:
        """Back up all files that a command is about to change."""
        with self._lock:
            known = self._load()
            entries = [self._of_command(changes, change) for change in changes.changes]
            self._warn_unkept(entries)
            for entry in entries:
                earlier = known.get((entry.path, entry.call))
                known[entry.path, entry.call] = earlier.then(entry) if earlier else entry
            # The backups must be on disk before the index names them.
            sync_folder(self.folder)
            self._append(known[entry.path, entry.call] for entry in entries)

    def changed(self, calls: Container[str | None] | None = None) -> list[ChangedFile]:
        """Return the files that the session, or ``calls``, left different.

        They are in the order of their first changes.
        """
        return [entry for entry in self._touched(calls) if entry.differs]

    def passing(self, calls: Container[str | None] | None = None) -> list[ChangedFile]:
        """Return the files that the session, or ``calls``, created and then removed again."""
        return [entry for entry in self._touched(calls) if not entry.differs and entry.made]

    def entries(self, calls: Container[str | None] | None = None) -> list[ChangedFile]:
        """Return every change by ``calls``, or by all calls if None."""
        return [entry for entry in self._load().values() if calls is None or entry.call in calls]

    def put_back(self, entries: Iterable[ChangedFile]) -> None:
        """Add forgotten entries again, before all others."""
        with self._lock:
            known = {(entry.path, entry.call): entry for entry in entries}
            self._known = known = {**known, **self._load()}
            replace_file(self.folder / _INDEX, "".join(map(dump_entry, known.values())), mode=0o600)

    def share(self, entry: ChangedFile, folder: Path) -> None:
        """Link the earlier content of an entry into the folder of another change log."""
        if entry.before is None or entry.before[0] != "file":
            return
        digest = entry.before[1]
        for kept in (self.folder / digest, self._clone_of(entry.path, digest)):
            with suppress(FileExistsError, FileNotFoundError):
                try:
                    os.link(kept, folder / kept.name)
                except PermissionError:  # a file system without hard links
                    with open(kept, "rb") as content:
                        replace_file(folder / kept.name, content, mode=0o600)

    def _touched(self, calls: Container[str | None] | None) -> Iterable[ChangedFile]:
        found: dict[Path, ChangedFile] = {}
        made: set[Path] = set()
        for entry in self.entries(calls):
            first = found.get(entry.path)
            if first is not None:
                found[entry.path] = first.then(entry)
            elif entry.path in made and entry.before == _FOLDER:
                found[entry.path] = replace(entry, before=None, mode=0)
            else:
                found[entry.path] = entry
            # File tools create these folders without an entry of their own.
            for folder in list(entry.path.parents)[: entry.made]:
                made.add(folder)
                if folder in found and found[folder].after is None:
                    found[folder] = replace(found[folder], after=_FOLDER)
        return found.values()

    def made(self, path: Path, digest: str) -> bool:
        """Return True if the session created this content, and it has not changed since."""
        for entry in self._touched(None):
            if entry.path == path:
                is_unchanged = not entry.others and entry.after == ("file", digest)
                return entry.before is None and is_unchanged
        return False

    def has(self, file: ChangedFile) -> bool:
        """Return True if the earlier content is backed up, even for another path."""
        if file.before is None:
            return False
        digest = file.before[1]
        return (self.folder / digest).exists() or self._clone_of(file.path, digest).exists()

    @contextmanager
    def kept(self, file: ChangedFile, digest: str) -> Iterator[bytes | BufferedReader]:
        """Open the backup of a file with this hash."""
        cloned = self._clone_of(file.path, digest)
        if cloned.exists():
            with open(cloned, "rb") as content:
                yield content
            return
        data = read_regular(self.folder / digest)
        if sha256(data).hexdigest() != digest:
            raise ForgeError("its backup is damaged")
        yield data

    def can_clone(self, held: HeldFile) -> bool:
        """Return True if the file system can clone a file, whatever its size."""
        # No system call reports this, so the file is cloned once for a test.
        with os.fdopen(held.open(), "rb") as source, TemporaryFile(dir=self.log.parent) as target:
            return clone_file(source.fileno(), target.fileno())

    def forget(self, restored: Iterable[Path], calls: Container[str | None] | None = None) -> None:
        """Forget the changes of restored files by ``calls``, or by all calls if None.

        The next change of such a file counts as its first one.
        """
        known = self._load()
        paths = set(restored)
        for path, call in list(known):
            if path in paths and (calls is None or call in calls):
                del known[path, call]
        if calls is None:
            # A file that was created and removed again has nothing to restore.
            left = {entry.path for entry in self.changed()}
            self._known = known = {key: entry for key, entry in known.items() if entry.path in left}
        if any(entry.differs for entry in known.values()):
            replace_file(self.folder / _INDEX, "".join(map(dump_entry, known.values())), mode=0o600)
        else:
            self.remove()

    def remove(self) -> None:
        """Delete all backups."""
        self._known = {}
        self._size = None
        if self.folder.is_dir():
            # The index goes last: a process that is killed meanwhile must not leave content that
            # nothing names.
            for file in sorted(self.folder.iterdir(), key=lambda file: file.name == _INDEX):
                file.unlink()
            self.folder.rmdir()

    def _keep(self, held: HeldFile) -> ChangedFile:
        place = held.place
        entry = ChangedFile(
            str(place.zone.path), place.parts, made=len(place.missing), call=current_call()
        )
        if place.info is None:
            return entry
        state, data = _look(held)
        owner = place.info.st_uid, place.info.st_gid
        entry = replace(
            entry, before=state, after=state, mode=place.info.st_mode & 0o7777, owner=owner
        )
        if state and state[0] == "file":
            entry = replace(entry, size=place.info.st_size)
        unkept = held.unkept
        if not unkept and state and data is not None:
            unkept = self._store(held, state, data)
        entry = replace(entry, unkept=unkept)
        self._warn_unkept([entry])
        return entry

    def _warn_unkept(self, entries: Sequence[ChangedFile]) -> None:
        """Warn about files that cannot be restored.

        There is no warning about a file that the session has only moved, because it can be moved
        back.
        """
        if self.notify is None or not any(entry.unkept for entry in entries):
            return
        last = {each.path: each.after for each in (*self._load().values(), *entries)}
        places: dict[State, set[Path]] = {}
        for path, state in last.items():
            places.setdefault(state, set()).add(path)
        by_reason: dict[str, list[Path]] = {}
        for entry in entries:
            if entry.unkept and not places.get(entry.before, set()) - {entry.path}:
                by_reason.setdefault(entry.unkept, []).append(entry.path)
        for unkept, paths in by_reason.items():
            files = visible(str(paths[0]))
            if len(paths) > 1:
                files += f" and {counted(len(paths) - 1, 'other file')}"
            sentence = f"forge undo will not restore {files}: {unkept}"
            self.notify("warning", StatusNotice(sentence, "undo", urgent=True))

    def _of_command(self, changes: ChangeSet, change: PathChange) -> ChangedFile:
        """Return the entry for a change by a command, and back up the earlier content."""
        before = change.before
        after = change.after
        entry = ChangedFile(
            change.zone,
            change.parts,
            before=_state(before),
            after=_state(after),
            call=current_call(),
        )
        if before is None:
            return entry
        entry = replace(entry, mode=before.mode, owner=before.owner, size=before.size)
        # Links have no mode of their own on Linux.
        if after and after.kind != "link":
            entry = replace(entry, after_mode=after.mode)
        if before.kind != "file" or before.detail == (after and after.detail):
            return entry
        return replace(entry, unkept=self._adopt(changes.source(change, "before"), before))

    def _adopt(self, source: Path, before: Entry) -> str | None:
        """Link or copy a file into the backups; return the reason if that fails."""
        file = self.folder / before.detail
        if before.size > READ_MAX:
            return f"files of more than {READ_MAX >> 20} MB are not backed up"
        try:
            make_private(self.folder)
            if not file.exists():
                if self._kept() + before.size > COMMANDS_MAX:
                    return f"{COMMANDS_MAX >> 20} MB of backups are the limit for a session"
                # A hard link costs no space, and the trial deletes its copy without writing to it.
                try:
                    os.link(source, file)
                except OSError:
                    with open(source, "rb") as content:
                        replace_file(file, content, mode=0o600)
                self._size = self._kept() + before.size
        except OSError as error:
            return f"it could not be backed up: {error.strerror}"
        return None

    def _kept(self) -> int:
        """Return the total size of all backups."""
        if self._size is None:
            # Clones are left out: they share their blocks with the file.
            self._size = sum(
                each.stat().st_size
                for each in self.folder.iterdir()
                if len(each.name) == _DIGEST_LENGTH
            )
        return self._size

    def _clone_of(self, path: Path, digest: str) -> Path:
        """Return the path of a clone.

        The path is part of its name, because the hash of a large file covers its beginning only.
        """
        return self.folder / f"{digest}-{sha256(os.fsencode(path)).hexdigest()[:16]}"

    def _store(self, held: HeldFile, state: tuple[str, str], data: bytes) -> str | None:
        """Store the content of a file under its hash, or clone it.

        Return the reason if that fails.
        """
        try:
            make_private(self.folder)
            if held.info().size > KEPT_MAX:
                with os.fdopen(held.open(), "rb") as source:
                    replace_file(self._clone_of(held.place.real, state[1]), source, mode=0o600)
                return None
            file = self.folder / state[1]
            if file.exists():
                return None
            if self._kept() + len(data) > SESSION_MAX:
                return f"{SESSION_MAX >> 20} MB of backups are the limit for a session"
            replace_file(file, data, mode=0o600)
            self._size = self._kept() + len(data)
        except OSError as error:
            return f"it could not be backed up: {error.strerror}"
        return None

    def _load(self) -> dict[tuple[Path, str | None], ChangedFile]:
        if self._known is None:
            self._known = {}
            for entry in read_entries(self.folder / _INDEX):
                self._known[entry.path, entry.call] = entry
        return self._known

    def _write(self, known: dict[tuple[Path, str | None], ChangedFile], entry: ChangedFile) -> None:
        """Write an entry to the index; if that fails, mark the file as not backed up and go on."""
        known[entry.path, entry.call] = entry
        try:
            self._append([entry])
        except OSError:
            unkept = entry.unkept or "it could not be backed up"
            known[entry.path, entry.call] = replace(entry, unkept=unkept)

    def _append(self, entries: Iterable[ChangedFile]) -> None:
        make_private(self.folder)
        with closing(LineFile(self.folder / _INDEX)) as index:
            index.append("".join(map(dump_entry, entries)).encode())
            index.sync()


def change_log(session: str) -> ChangeLog:
    """Return the change log of a session."""
    return ChangeLog(session_file(session))


def logs_of_others(log: ChangeLog) -> list[ChangeLog]:
    """Return the change logs of other sessions with content that was not backed up."""
    found: list[ChangeLog] = []
    for index in sorted(log.log.parent.glob(f"*{_FOLDER_SUFFIX}/{_INDEX}")):
        other = ChangeLog(index.parent.with_suffix(log.log.suffix))
        with suppress(OSError):
            if other.log != log.log and b'"unkept"' in read_regular(index):
                found.append(other)
    return found


def _state(entry: Entry | None) -> State:
    """Return the state of a path before or after a command."""
    kinds = {"folder": "directory", "pipe": "special"}
    if entry is None:
        return None
    return kinds.get(entry.kind, entry.kind), entry.detail


def state_of(held: HeldFile) -> State:
    """Return the present state of a path."""
    return _look(held)[0]


def _look(held: HeldFile) -> tuple[State, bytes | None]:
    kind = held.kind
    info = held.place.info
    if kind is None or info is None:
        return None, None
    if kind == "file":
        data = held.read(READ_MAX)
        return (kind, _hash_of(data, info.st_size)), data
    if kind == "link":
        return (kind, os.readlink(held.place.name, dir_fd=held.place.folder)), None
    return (kind, ""), None


def _hash_of(data: bytes, size: int | None = None) -> str:
    """Return the hash of a file; for a large file, of its beginning and its size."""
    size = len(data) if size is None else size
    if size <= READ_MAX:
        return sha256(data).hexdigest()
    return sha256(data[:READ_MAX] + b"%d" % size).hexdigest()


def _lines(file: Path) -> list[bytes]:
    """Return the complete lines of an index.

    An unfinished one belongs to a change that did not happen.
    """
    try:
        return read_regular(file).split(b"\n")[:-1]
    except (FileNotFoundError, NotADirectoryError):
        return []


def read_entries(file: Path) -> list[ChangedFile]:
    """Return the entries of an index in order; none if the file does not exist."""
    return [_parse(line) for line in _lines(file)]


def dump_entry(entry: ChangedFile) -> str:
    """Return an entry as a line of an index, without empty fields."""
    said = {
        name: value
        for name, value in asdict(entry).items()
        if value is not None and value is not False
    }
    return json.dumps(said) + "\n"


def _parse(line: bytes) -> ChangedFile:
    found: dict[str, Any] = json.loads(line)
    for name in ("before", "after", "owner", "parts"):
        if name in found:
            found[name] = tuple(found[name])
    return ChangedFile(**found)
