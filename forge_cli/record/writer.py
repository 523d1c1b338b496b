"""Writing the log of a session: a line is on the disk before it is acted upon, and readable after any crash."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self

from anyio import CancelScope

from forge_cli.core.errors import ForgeError
from forge_cli.core.events import ApprovalDecided, ApprovalResponse, SessionEnd, TurnEndEvent, TurnStart
from forge_cli.core.upkeep import move_out_of_reach
from forge_cli.core.values import dataclass
from forge_cli.files.home import make_private
from forge_cli.files.sync import sync_data, sync_folder
from forge_cli.record.leftovers import part_file, sweep
from forge_cli.record.line import Line
from forge_cli.record.lock import lock, unlock
from forge_cli.record.log import Log, SessionLost, files_by_time, read_session, sessions_folder
from forge_cli.record.proof import Proof, is_proven

if TYPE_CHECKING:
    from forge_cli.record.disk import Disk

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_ACTED_UPON = frozenset({TurnStart.type, TurnEndEvent.type, ApprovalResponse.type, SessionEnd.type})
_COARSE = 100_000_000
"""Nanoseconds by which the clock of the files may be behind."""


def is_acted_upon(line: Line) -> bool:
    """Does something follow from a line that cannot be taken back? Then it is to be on the disk first.

    A result is acted upon by the next request or the next approved call, whose line brings it along: the results of a
    turn need no waiting of their own.
    """
    return line.type in _ACTED_UPON or is_consent(line)


def is_consent(line: Line) -> bool:
    """Does a line let a call be made?"""
    kind = line.type
    return kind == ApprovalResponse.type or (kind == ApprovalDecided.type and line.data.get("approved") is True)


@dataclass
class SessionLog:
    """A sink of the record that appends to the session's file; one process at a time."""

    only_keeps: ClassVar[bool] = True
    """It takes no transient lines."""
    path: Path
    sync: Callable[[int], None] = sync_data
    """Waits until a file is on the disk."""
    apart: bool = False
    """Is it one of many, made by a batch? Then other sessions are left out of account, and only consent is waited for.

    After a power cut the model may take a turn again that was lost, but no call is made twice. Lines that come in one
    go are written in one go.
    """
    waits: bool = True
    """Does whoever writes wait for the disk? Otherwise ``keep_consent`` does, before anything follows from consent."""
    _fd: int = -1
    _lock: int = -1
    _place: tuple[int, int] | None = None
    """Which file it is: its device and number there."""
    _size: int = 0
    _torn: bool = False
    _unnamed: bool = False
    """Is it not certain yet that the folder has the file after a power cut?"""
    _unkept: bool = False
    """Was something written that is to be on the disk before it is acted upon, and is not yet?"""
    _keeping: asyncio.Lock | None = field(default=None, repr=False)
    _written: bool = False
    _latest: int = 0
    """When any session was worked on last, by the clock of the files."""
    _lost: SessionLost | None = field(default=None, repr=False)
    _unwritten: list[Line] = field(default_factory=list, repr=False)
    _is_due: bool = False
    """Will what came last be written as soon as whoever writes waits?"""

    def __post_init__(self) -> None:
        self._proof = Proof(self.path)

    @classmethod
    def create(cls, path: Path, *, apart: bool = False, waits: bool = True) -> Self:
        """The log of a new session, which is there once it has a line; an OSError when the home cannot be written."""
        log = cls(path, apart=apart, waits=waits)
        try:
            log._lock = lock(path)
        except OSError:  # most often there is no folder yet; what else is wrong with it is told
            make_private(path.parent)
            log._lock = lock(path)
        log._look_around()
        return log

    @classmethod
    def resume(cls, path: Path, *, apart: bool = False, waits: bool = True) -> tuple[Self, Log]:
        """The log of a session to be resumed, and what it holds; half a line at its end goes with the first write.

        Until then nothing is changed: it may turn out to be another file altogether. One that cannot be written is
        not resumed, for what is done without a log is done again the next time.
        """
        log = cls(path, apart=apart, waits=waits)
        try:
            log._lock = lock(path)
            log._fd = move_out_of_reach(os.open(path, _FLAGS))
            read = read_session(path)
        except OSError as error:
            log.close()
            raise _not_writable(path, error) from None
        except BaseException:
            log.close()
            raise
        log._size, log._torn = read.size, read.dropped
        log._proof.whole = is_proven(path, read.lines)
        log._look_around()
        return log, read

    def _look_around(self) -> None:
        if self.apart:
            return
        sweep(sessions_folder())
        self._latest = _latest(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __call__(self, line: Line) -> None:
        if line.transient:
            return
        if self._lost is None:
            self._unwritten.append(line)
            if not self._may_wait(line):
                self.flush()
            elif not self._is_due:
                asyncio.get_running_loop().call_soon(self._flush_later)
                self._is_due = True
        elif line.type != SessionEnd.type:
            raise self._lost

    def _may_wait(self, line: Line) -> bool:
        """Until whoever writes waits for something; after the last line nobody does, and no request without a log."""
        if not self.apart or self.waits or line.type == SessionEnd.type:
            return False
        return self.has_begun or line.type != TurnStart.type

    def _flush_later(self) -> None:
        self._is_due = False
        with suppress(SessionLost):  # told with the next line, or by ``check``
            self.flush()

    @property
    def has_begun(self) -> bool:
        """Is there a file?"""
        return self._fd >= 0

    def check(self) -> None:
        """SessionLost, unless all lines are written that came so far."""
        self.flush()
        if self._lost:
            raise self._lost

    def flush(self) -> None:
        """Write what came last."""
        lines, self._unwritten = self._unwritten, []
        if lines and self._lost is None:
            self._write(lines)
            self._proof.write(lines)

    def copy(self, lines: Sequence[Line]) -> None:
        """Start with the lines of another session; all of them, or there is no session."""
        self._write(lines)

    def _write(self, lines: Sequence[Line]) -> None:
        data = "".join([line.text() for line in lines]).encode()
        try:
            if self.has_begun:
                self._append(data)
            else:
                self._begin(data)
            self._unkept = self._unkept or any(map(is_consent if self.apart else is_acted_upon, lines))
            if self._unkept and self.waits:
                self._keep()
            self._written = True
            if time.time_ns() - _COARSE <= self._latest:
                os.utime(self._fd, ns=(self._latest + 1, self._latest + 1))
        except OSError as error:
            self._lost = self._why_lost(error)
            raise self._lost from None
        except SessionLost as error:
            self._lost = error
            raise

    def _begin(self, data: bytes) -> None:
        """Put the file there together with its first lines: whole, or not at all."""
        part = part_file(self.path)
        self._fd = move_out_of_reach(os.open(part, _FLAGS | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
        try:
            self._put(data)
            if not self.apart:
                self.sync(self._fd)
            if os.path.lexists(self.path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self.path))
            os.rename(part, self.path)
        except BaseException:
            with suppress(OSError):
                os.unlink(part)
            raise
        if self.apart:
            self._unnamed = True
            return
        for folder in self.path.parents[:3]:
            sync_folder(folder)

    async def keep_consent(self, disk: Disk) -> None:
        """Wait until the consent that was written is on the disk, while others work."""
        self._keeping = self._keeping or asyncio.Lock()
        async with self._keeping:
            self.flush()
            if not self._unkept:
                return
            try:
                with CancelScope(shield=True):
                    await disk.wait_for(self._sync, os.path.dirname(self.path) if self._unnamed else None)
                self._unnamed = False
            except OSError as error:
                self._lost = self._why_lost(error)
                raise self._lost from None

    def _keep(self) -> None:
        self._sync()
        if self._unnamed:
            sync_folder(self.path.parent)
            self._unnamed = False

    def _sync(self) -> None:
        self._unkept = False
        self.sync(self._fd)

    def _append(self, data: bytes) -> None:
        if self._torn:
            os.ftruncate(self._fd, self._size)
            self._torn = False
        self._check_place()
        try:
            self._put(data)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._fd, self._size)
            raise

    def _put(self, data: bytes) -> None:
        if os.write(self._fd, data) < len(data):
            raise OSError(errno.ENOSPC, "the disk is full")
        self._size += len(data)

    def _check_place(self) -> None:
        """The file is still the one of its name, and nobody else has changed it."""
        if self._place is None:
            own = os.fstat(self._fd)
            self._place = own.st_dev, own.st_ino
        try:
            found = os.stat(self.path)
            same = (found.st_dev, found.st_ino) == self._place
        except OSError:
            same = False
        if not same or found.st_size != self._size:
            what = "changed by somebody else" if same else "removed"
            hint = "not everything that was done stands in it: look what there is before you start again"
            raise SessionLost(f"the session's log was {what} while it was written: {self.path}", hint=hint)

    def _why_lost(self, error: OSError) -> SessionLost:
        problem = f"the session's log cannot be written any more: {error.strerror}"
        resume = f" and resume with -r {self.path.stem}" if self._size and self.path.exists() else ""
        without = "" if self.apart else ", or use --ephemeral"
        return SessionLost(problem, hint=f"make room for {self.path}{resume}{without}")

    def close(self) -> None:
        """Let go of the file, and of the lock last: who waits for it must not find a file that is about to go."""
        with suppress(SessionLost):
            self.flush()
        self._proof.close()
        if self.has_begun:
            with suppress(OSError, ForgeError):
                self._be_last()
            os.close(self._fd)
        if self._lock >= 0:
            unlock(self.path, self._lock)
        self._fd = self._lock = -1

    def _be_last(self) -> None:
        """Be the last one by the clock of the files, even if that was set back."""
        if self._written and not self.apart and os.fstat(self._fd).st_mtime_ns <= (latest := _latest(self.path)):
            os.utime(self._fd, ns=(latest + 1, latest + 1))


def _latest(path: Path) -> int:
    return max((time for time, other in files_by_time() if other != path), default=0)


def _not_writable(path: Path, error: OSError) -> SessionLost:
    problem = f"the session {path.stem} cannot be resumed: its log cannot be written: {what_failed(error)}"
    room = "make room for it" if error.errno in FULL else "make it writable, or resume a copy with --fork"
    return SessionLost(problem, hint=f"{room}; --ephemeral resumes it without keeping what follows")


def what_failed(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
